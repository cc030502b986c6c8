// CUDA's words for a CPU, so that the kernels of src/asot run where there is no GPU. This is the machine;
// words.hpp, which follows it, gives it CUDA's names.
//
// Every thread of a block is a fiber with a stack of its own, and runs until it reaches a barrier or a collective of its
// warp. There it waits until all threads that the barrier names have come. Blocks run one after another. What a GPU
// would answer with a hang or with anything at all is found: when no thread can go on, the launch ends with a message
// that says who waits for what. The order of threads between barriers is forward, reverse or random: a kernel whose
// answer depends on it lacks a barrier. One launch at a time. Threads are not preempted, so a loop that waits for
// another thread's store never ends.

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <deque>
#include <type_traits>
#include <vector>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace simt {

enum Code { DONE = 0, DEADLOCK = 1, MISUSE = 2, TOO_LONG = 3, OUTSIDE = 4 };
enum State { READY, AT_WARP, AT_BLOCK, EXITED };

const size_t STACK_BYTES = 256 * 1024;
const unsigned char POISON = 0xdb;  // what was never written, and what a shuffle from an absent lane gives

struct Thread {
    dim3 index;
    int lane, warp;
    State state;
    bool started;
    jmp_buf place;
    // What this thread asks of its warp, and the answer.
    const char* word;
    uint32_t mask;
    int source;
    char value[8], answer[8];
};

struct Warp {
    uint32_t present, waiting;  // lanes that have not left the kernel, and lanes at a collective
};

static std::vector<Thread> threads;
static std::vector<Warp> warps;
static std::deque<Thread*> ready;
static Thread* now;
static jmp_buf scheduler;
static char* stacks;
static dim3 grid_size, block_size, block_at;
static char* dynamic_shared;
static void (*body)(void**);
static void** arguments;
static long long order, switches, most_switches;
static uint64_t random_state;
static int waiting_for_block, alive;
static int code;
static char message[1024];

static void fail(int with, const char* format, ...) {
    if (code != DONE) return;
    code = with;
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
}

// ------------------------------------------------------------------------------------------------ fibers

// setjmp and longjmp leave the signal mask alone: no system call for a switch, as swapcontext would make.
static __attribute__((noinline)) void to_scheduler() {
    if (_setjmp(now->place) == 0) _longjmp(scheduler, 1);
}

static void run_thread() {
    for (;;) {  // once for every block
        body(arguments);
        now->state = EXITED;
        to_scheduler();
    }
}

static __attribute__((noinline)) void to_thread(Thread* thread) {
    if (_setjmp(scheduler) != 0) return;
    now = thread;
    if (thread->started) _longjmp(thread->place, 1);
    thread->started = true;
    static ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (thread - threads.data()) * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, run_thread, 0);
    setcontext(&context);
}

static Thread* next_thread() {
    Thread* thread;
    if (order == 0) {
        thread = ready.front();
        ready.pop_front();
        return thread;
    }
    if (order > 0) {
        random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(ready[(random_state >> 33) % ready.size()], ready.back());
    }
    thread = ready.back();
    ready.pop_back();
    return thread;
}

static void make_ready(Thread& thread) {
    thread.state = READY;
    ready.push_back(&thread);
}

// ------------------------------------------------------------------------------------------------ barriers

// The lowest lane of a mask, which is taken out of it.
static Thread& take_lane(int warp, uint32_t& lanes) {
    const int lane = __builtin_ctz(lanes);
    lanes &= lanes - 1;
    return threads[32 * warp + lane];
}

static void answer(int warp, uint32_t mask) {
    uint32_t votes = 0;
    for (uint32_t lanes = mask; lanes;) {
        const Thread& thread = take_lane(warp, lanes);
        if (thread.source < 0 && thread.value[0]) votes |= 1u << thread.lane;
    }
    for (uint32_t lanes = mask; lanes;) {
        Thread& thread = take_lane(warp, lanes);
        if (thread.source < 0) memcpy(thread.answer, &votes, sizeof votes);
        else if (mask >> thread.source & 1) memcpy(thread.answer, threads[32 * warp + thread.source].value, 8);
        else memset(thread.answer, POISON, 8);
        make_ready(thread);
    }
    warps[warp].waiting &= ~mask;
}

// Let the lanes of a mask go on if all of them that have not left the kernel have come.
static void meet(int warp, uint32_t mask, const char* word) {
    const uint32_t expected = mask & warps[warp].present;
    if (expected & ~warps[warp].waiting) return;
    for (uint32_t lanes = expected; lanes;)
        if (take_lane(warp, lanes).mask != mask) return;
    for (uint32_t lanes = expected; lanes;) {
        const char* other = take_lane(warp, lanes).word;
        if (strcmp(other, word) != 0)
            return fail(MISUSE, "lanes of warp %d of block %u meet at %s and at %s", warp, block_at.x, word, other);
    }
    answer(warp, expected);
}

static void meet_in_block() {
    if (alive == 0 || waiting_for_block < alive) return;
    waiting_for_block = 0;
    for (Thread& thread : threads)
        if (thread.state == AT_BLOCK) make_ready(thread);
}

static void after_exit(const Thread& gone) {
    alive--;
    meet_in_block();
    Warp& warp = warps[gone.warp];
    warp.present &= ~(1u << gone.lane);
    for (uint32_t lanes = warp.waiting; lanes;) {
        const Thread& thread = take_lane(gone.warp, lanes);
        if (thread.state == AT_WARP) meet(gone.warp, thread.mask, thread.word);
    }
}

// Wait for the lanes of a mask. `source` is the lane a shuffle reads, or -1 for votes and barriers.
static void ask(const char* word, uint32_t mask, int source, const void* value, size_t bytes) {
    Thread& self = *now;
    if (!(mask >> self.lane & 1))
        fail(MISUSE, "lane %d of warp %d of block %u calls %s(%08x): not one of its lanes", self.lane, self.warp,
             block_at.x, word, mask);
    self.word = word;
    self.mask = mask;
    self.source = source;
    memcpy(self.value, value, bytes);
    self.state = AT_WARP;
    warps[self.warp].waiting |= 1u << self.lane;
    meet(self.warp, mask, word);
    to_scheduler();
}

static uint32_t vote(const char* word, uint32_t mask, bool value) {
    uint32_t votes;
    ask(word, mask, -1, &value, 1);
    memcpy(&votes, now->answer, sizeof votes);
    return votes;
}

template <typename T>
static T shuffle(const char* word, uint32_t mask, T value, int source) {
    static_assert(sizeof(T) <= 8, "shuffles move 4 or 8 bytes");
    ask(word, mask, source, &value, sizeof value);
    memcpy(&value, now->answer, sizeof value);
    return value;
}

// ------------------------------------------------------------------------------------------------ launch

static void tell_who_waits() {
    char text[800] = "";
    size_t used = 0;
    const Thread* last = nullptr;
    for (const Thread& thread : threads) {
        if (thread.state == EXITED) continue;
        const bool same = last && last->state == thread.state && last->warp == thread.warp &&
                          (thread.state == AT_BLOCK || (last->mask == thread.mask && last->word == thread.word));
        last = &thread;
        if (same || used > sizeof text - 120) continue;
        if (thread.state == AT_BLOCK)
            used += snprintf(text + used, sizeof text - used, "; from lane %d of warp %d on: __syncthreads", thread.lane,
                             thread.warp);
        else
            used += snprintf(text + used, sizeof text - used, "; from lane %d of warp %d on: %s(%08x)", thread.lane,
                             thread.warp, thread.word, thread.mask);
    }
    fail(DEADLOCK, "block %u cannot go on%s", block_at.x, text);
}

static void run_block() {
    ready.clear();
    alive = (int)threads.size();
    waiting_for_block = 0;
    warps.assign((threads.size() + 31) / 32, Warp{0, 0});
    for (Thread& thread : threads) {
        warps[thread.warp].present |= 1u << thread.lane;
        make_ready(thread);
    }
    while (alive > 0 && code == DONE) {
        if (ready.empty()) return tell_who_waits();
        if (switches++ >= most_switches) return fail(TOO_LONG, "block %u did not end in time", block_at.x);
        Thread* thread = next_thread();
        to_thread(thread);
        if (thread->state == EXITED) after_exit(*thread);
    }
}

// Shared memory ends where no page is: a look beyond its end is caught, and ends the launch.
struct Shared {
    static constexpr size_t PAGE = 4096, GUARD = 64 * PAGE;
    static inline char* guard;
    static inline struct sigaction before;
    char* memory;
    size_t size;

    explicit Shared(size_t bytes) : size((bytes + PAGE - 1) / PAGE * PAGE) {
        memory = (char*)mmap(nullptr, size + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        guard = memory + size;
        mprotect(guard, GUARD, PROT_NONE);
        dynamic_shared = guard - (bytes + 15) / 16 * 16;
        struct sigaction action = {};
        action.sa_sigaction = caught;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, &before);
    }
    ~Shared() {
        sigaction(SIGSEGV, &before, nullptr);
        munmap(memory, size + GUARD);
    }
    static void caught(int, siginfo_t* info, void*) {
        const char* at = (const char*)info->si_addr;
        if (at < guard || at >= guard + GUARD) {
            sigaction(SIGSEGV, &before, nullptr);  // not ours: it happens again, to whoever was here before
            return;
        }
        fail(OUTSIDE, "lane %d of warp %d looks %zd bytes beyond its shared memory", now->lane, now->warp,
             (size_t)(at - guard));
        _longjmp(scheduler, 1);
    }
};

static int launch(void (*kernel)(void**), void** values, dim3 grid, dim3 block, size_t shared_bytes, long long order_seed,
                  long long limit) {
    body = kernel;
    arguments = values;
    grid_size = grid;
    block_size = block;
    order = order_seed;
    random_state = (uint64_t)order_seed;
    switches = 0;
    most_switches = limit;
    code = DONE;
    message[0] = 0;
    const size_t count = (size_t)block.x * block.y * block.z;
    threads.assign(count, Thread());
    for (size_t t = 0; t < count; t++) {
        threads[t].index = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
        threads[t].lane = t % 32;
        threads[t].warp = t / 32;
    }
    stacks = (char*)mmap(nullptr, count * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const Shared shared(shared_bytes);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x && code == DONE; x++) {
                block_at = dim3(x, y, z);
                memset(dynamic_shared, POISON, shared_bytes);
                run_block();
            }
    munmap(stacks, count * STACK_BYTES);
    return code;
}

// ------------------------------------------------------------------------------------------------ arguments

// NumPy's name of a type, or * for void; pointers have p or, where the kernel may only read, c before that of what they
// point to.
template <typename T>
struct Name {
    static void write(char* out) {
        using Plain = std::remove_cv_t<T>;
        const char kind = std::is_same_v<Plain, bool>      ? 'b'
                          : std::is_floating_point_v<Plain> ? 'f'
                          : std::is_unsigned_v<Plain>       ? 'u'
                          : std::is_integral_v<Plain>       ? 'i'
                                                            : 'V';
        snprintf(out, 16, "%c%zu ", kind, sizeof(Plain));
    }
};
template <typename T>
struct Name<T*> {
    static void write(char* out) {
        *out = std::is_const_v<T> ? 'c' : 'p';
        if constexpr (std::is_void_v<T>) snprintf(out + 1, 3, "* ");
        else Name<T>::write(out + 1);
    }
};

template <auto kernel>
struct Kernel;
template <typename... A, void (*kernel)(A...)>
struct Kernel<kernel> {
    template <size_t... I>
    static void spread(void** values, std::index_sequence<I...>) {
        kernel(*(std::remove_cv_t<A>*)values[I]...);
    }
    static void call(void** values) { spread(values, std::index_sequence_for<A...>()); }
    static const char* signature() {
        static char text[16 * sizeof...(A) + 1];
        text[0] = 0;
        (Name<A>::write(text + strlen(text)), ...);
        return text;
    }
};

}  // namespace simt

#define SIMT_EXPORT(kernel)                                                                                               \
    extern "C" int simt_launch_##kernel(void** values, const unsigned* grid, const unsigned* block, size_t shared_bytes,  \
                                        long long order_seed, long long limit) {                                          \
        return simt::launch(simt::Kernel<&kernel>::call, values, dim3(grid[0], grid[1], grid[2]),                         \
                            dim3(block[0], block[1], block[2]), shared_bytes, order_seed, limit);                         \
    }                                                                                                                     \
    extern "C" const char* simt_signature_##kernel() { return simt::Kernel<&kernel>::signature(); }

extern "C" const char* simt_message() { return simt::message; }
