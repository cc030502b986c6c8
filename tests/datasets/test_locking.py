"""One process at a time."""

import threading

import pytest

from asot.datasets.locking import alone


def test_the_second_waits_until_the_first_is_done(tmp_path):
    path, waiting, order = tmp_path / ".some.lock", threading.Event(), []

    def second():
        with alone(path, waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with alone(path, pytest.fail):
        thread.start()
        assert waiting.wait(20)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]
    assert not path.exists()


def test_many_take_turns(tmp_path):
    path, inside, most = tmp_path / ".some.lock", [], []

    def one():
        for _ in range(5):
            with alone(path, lambda: None):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 20
    assert not path.exists()


def test_an_error_frees_the_lock(tmp_path):
    path = tmp_path / ".some.lock"
    with pytest.raises(KeyError), alone(path, pytest.fail):
        raise KeyError("something else")
    with alone(path, pytest.fail):
        assert path.exists()
