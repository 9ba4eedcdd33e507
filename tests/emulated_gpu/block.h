#pragma once

#include <cstddef>
#include <functional>

// The threads of a block: each runs until it waits for the others, in any order.
namespace emulated {

// `thread` is run once for each thread of one block; threadIdx.x counts them. Not re-entrant.
// Returns whether any waited. Without `may_wait` none may, and no stacks are changed.
bool RunBlock(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread,
              bool may_wait);

// The block's dynamic shared memory.
unsigned char* DynamicShared();

// Copies of 16 bytes into shared memory happen as late as they may.
void CopyLater(void* to, const void* from, bool present);
void EndGroupOfCopies();
void FinishCopies(int all_but);

// The time as kernels see it, which goes on as they look and sleep.
void SetClock(long long nanoseconds);
long long Clock();

}  // namespace emulated
