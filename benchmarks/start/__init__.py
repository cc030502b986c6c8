"""From `import asot` to the first answer, and this source beside an earlier one."""
