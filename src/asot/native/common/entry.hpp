// What every entry point shares: how it is exported, what it returns, and where its scratch memory comes from.
//
// Python checks arguments before it calls, so kernels trust their records. An entry returns DONE or OUT_OF_MEMORY, which
// becomes a MemoryError; other codes are named where they are used. Long loops look at *stop, which Ctrl-C raises.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#if defined(ASOT_CHECKED)  // the build with sanitizers
#include <sanitizer/asan_interface.h>
#define FENCE(place, bytes) ASAN_POISON_MEMORY_REGION(place, bytes)
#define UNFENCE(place, bytes) ASAN_UNPOISON_MEMORY_REGION(place, bytes)
#else
#define FENCE(place, bytes) (void)0
#define UNFENCE(place, bytes) (void)0
#endif

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(_WIN32)
#define ENTRY extern "C" __declspec(dllexport) int32_t
#else
#define ENTRY extern "C" __attribute__((visibility("default"))) int32_t
#endif

constexpr int32_t DONE = 0, OUT_OF_MEMORY = 1;

typedef const volatile int64_t* Stop;  // (1,) not 0 once the caller wants to end
inline constexpr int64_t NEVER_RAISED = 0;
inline constexpr Stop NEVER = &NEVER_RAISED;  // for work that is small enough to be finished

// Blocks of scratch memory that were given back last. A system takes large blocks away at once when they are freed, and
// clears every page anew when they are asked for again, which takes longer than solving a pair of a hundred points. For
// five points, a tenth of the time would go into asking.
class Spare {
    static constexpr int64_t SMALL = int64_t(1) << 16, LARGEST = int64_t(1) << 23;
    static inline void *small_[3] = {}, *large_[3] = {};  // threads take and leave them by exchanges; a large one begins
                                                          // with its size
    static bool shelve(void* (&shelf)[3], void* block) {
        for (void*& place : shelf) {
            void* nothing = nullptr;
            if (__atomic_compare_exchange_n(&place, &nothing, block, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return true;
        }
        return false;
    }

    // Ask for pages of 2 MB where there are some: a block of a hundred megabytes has 25,000 of the usual ones, and to
    // come by them takes a fifth of the time in which a pair of two thousand points is solved.
    static void in_large_pages(void* block, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        const uintptr_t page = 1 << 16, start = (reinterpret_cast<uintptr_t>(block) + page - 1) & ~(page - 1);
        const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + static_cast<uintptr_t>(bytes)) & ~(page - 1);
        madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);  // if it cannot be, nothing is lost
#else
        (void)block, (void)bytes;
#endif
    }

  public:
    // A block of at least so many bytes, and how many there are; null if there is not enough memory.
    static void* take(int64_t& bytes) {
#if !defined(ASOT_CHECKED)
        const bool small = bytes <= SMALL;
        if (small) bytes = SMALL;
        if (bytes <= LARGEST)
            for (void*& place : small ? small_ : large_) {
                void* block = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQ_REL);
                if (block == nullptr) continue;
                const int64_t size = small ? SMALL : *static_cast<int64_t*>(block);
                if (size >= bytes) {
                    bytes = size;
                    return block;
                }
                std::free(block);
            }
#endif
        void* block = std::malloc(static_cast<size_t>(bytes));
        if (bytes > LARGEST && block != nullptr) in_large_pages(block, bytes);
        return block;
    }
    static void leave(void* block, int64_t bytes) {
#if !defined(ASOT_CHECKED)
        if (block != nullptr && bytes <= LARGEST) {
            if (bytes > SMALL) *static_cast<int64_t*>(block) = bytes;
            if (shelve(bytes > SMALL ? large_ : small_, block)) return;
        }
#endif
        (void)bytes;
        std::free(block);
    }
};

// Scratch memory in one piece. Count first, then take: `Memory memory(bytes_of<double>(n) + …)`, `memory.take<double>(n)`.
// Pieces begin on cache lines; under a sanitizer a fence behind each of them catches whoever steps over its end.
class Memory {
  public:
    explicit Memory(int64_t bytes) : size_(bytes), room_(bytes + LINE), owned_(Spare::take(room_)) {
        const uintptr_t start = reinterpret_cast<uintptr_t>(owned_);
        next_ = reinterpret_cast<char*>((start + LINE - 1) & ~uintptr_t(LINE - 1));
        begin_ = next_;
    }
    ~Memory() {
        if (owned_ != nullptr) UNFENCE(begin_, static_cast<size_t>(size_));
        Spare::leave(owned_, room_);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    bool failed() const { return owned_ == nullptr; }

    template <class T>
    static constexpr int64_t bytes_of(int64_t n) {
        return ((n * int64_t(sizeof(T)) + LINE - 1) & ~int64_t(LINE - 1)) + GAP;
    }
    template <class T>
    T* take(int64_t n) {
        T* piece = reinterpret_cast<T*>(next_);
        const int64_t used = n * int64_t(sizeof(T)), whole = bytes_of<T>(n);
        FENCE(next_ + used, static_cast<size_t>(whole - used));
        (void)used;
        next_ += whole;
        return piece;
    }

  private:
    static constexpr int64_t LINE = 64;
#if defined(ASOT_CHECKED)
    static constexpr int64_t GAP = 64;
#else
    static constexpr int64_t GAP = 0;
#endif
    int64_t size_, room_;
    void* owned_;
    char *next_, *begin_;
};
