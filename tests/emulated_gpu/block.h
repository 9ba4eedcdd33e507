#pragma once

#include <cstddef>
#include <functional>

// Runs the threads of a block: each runs until it waits for the others, in any order.
namespace emulated {

// Runs `thread` once for each thread of one block, with threadIdx.x set. Not re-entrant. Returns
// whether any thread waited. With `may_wait` false no thread may wait, and no stacks are switched.
bool RunBlock(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread,
              bool may_wait);

// The block's dynamic shared memory.
unsigned char* DynamicShared();

// Copies 16 bytes into shared memory as late as allowed.
void CopyLater(void* to, const void* from, bool present);
void EndGroupOfCopies();
void FinishCopies(int all_but);

// The time that kernels see, which advances when they read it and sleep.
void SetClock(long long nanoseconds);
long long Clock();

}  // namespace emulated
