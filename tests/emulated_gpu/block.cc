#include "tests/emulated_gpu/block.h"

#include <cuda_runtime.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulated_gpu/schedule.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStack = 512 << 10;

// A separate stack on which code runs until it yields.
struct Fiber {
  ucontext_t context{};  // the context in which it begins
  bool begun = false;
  jmp_buf place{};  // where it last yielded
  std::unique_ptr<char[]> stack;
  void* fake_stack = nullptr;  // the address sanitizer's handle
};

enum class Waits : unsigned char { kNot, kForWarp, kForBlock };

struct Copy {
  void* to;
  const void* from;
  bool present;
};

struct Thread {
  Fiber* fiber = nullptr;  // the fiber that it runs on; none before it begins
  Waits waits = Waits::kNot;
  bool done = false;
  int parity = 0;
  std::vector<Copy> copies{};
  std::vector<std::vector<Copy>> groups{};
};

struct Block {
  const std::function<void()>* body = nullptr;
  std::vector<Thread> threads;
  unsigned begun = 0;    // number of threads that have begun
  unsigned current = 0;  // index of the running thread
  bool waited = false;
  std::vector<unsigned char> shared;
  // Data shared by lanes, for two alternating exchanges.
  std::vector<unsigned char> slots;
};

// The block that this host thread runs.
thread_local Block* block = nullptr;
thread_local Fiber home;
thread_local std::vector<std::unique_ptr<Fiber>> fibers;
thread_local std::vector<Fiber*> unused;
thread_local std::mt19937 order(7);
thread_local long long now = 0;
#ifdef __SANITIZE_ADDRESS__
// The host thread's own stack, reported by the sanitizer to code that leaves it.
thread_local const void* home_bottom = nullptr;
thread_local std::size_t home_size = 0;
#endif

void Switch(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_ADDRESS__
  const bool to_home = &to == &home;
  __sanitizer_start_switch_fiber(&from.fake_stack, to_home ? home_bottom : to.stack.get(),
                                 to_home ? home_size : kStack);
  swapcontext(&from.context, &to.context);
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(from.fake_stack, &bottom, &size);
  if (&from != &home) {
    home_bottom = bottom;
    home_size = size;
  }
#else
  // Like swapcontext, but without the signal mask, which takes two system calls.
  if (_setjmp(from.place) != 0) return;
  from.begun = true;
  if (to.begun) _longjmp(to.place, 1);
  setcontext(&to.context);
#endif
}

// Starts threads until one waits; another fiber then starts the rest.
void RunThreads() {
  Fiber* self = nullptr;
  for (;;) {
    while (block->begun < block->threads.size()) {
      const unsigned thread = block->begun++;
      self = block->threads[thread].fiber = self == nullptr ? unused.back() : self;
      block->current = thread;
      threadIdx = {thread, 0, 0};
      (*block->body)();
      block->threads[block->current].done = true;
    }
    Switch(*self, home);
  }
}

void Enter() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &home_bottom, &home_size);
#endif
  RunThreads();
}

Fiber& TakeFiber() {
  auto fiber = std::make_unique<Fiber>();
  fiber->stack.reset(new char[kStack]);
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStack;
  makecontext(&fiber->context, Enter, 0);
  return *fibers.emplace_back(std::move(fiber));
}

void GiveWay(Waits waits) {
  Thread& self = block->threads[block->current];
  if (self.fiber == nullptr) Die("a thread waits where none did the first time");
  block->waited = true;
  self.waits = waits;
  const unsigned thread = block->current;
  Switch(*self.fiber, home);
  block->current = thread;
  threadIdx = {thread, 0, 0};
}

// Continues the threads [begin, end) if all remaining ones wait in this way.
bool Release(unsigned begin, unsigned end, Waits waits) {
  const auto first = block->threads.begin() + begin;
  const auto last = block->threads.begin() + std::min<std::size_t>(end, block->threads.size());
  if (!std::all_of(first, last, [&](const Thread& t) { return t.done || t.waits == waits; })) {
    return false;
  }
  bool any = false;
  for (auto thread = first; thread != last; ++thread) {
    any = any || !thread->done;
    thread->waits = Waits::kNot;
  }
  return any;
}

}  // namespace

bool RunBlock(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread,
              bool may_wait) {
  Block own;
  own.body = &thread;
  own.threads.resize(threads);
  constexpr std::size_t kAlignment = 128;
  own.shared.assign(shared_bytes + kAlignment, 0xff);
  own.slots.resize((threads + kWarp - 1) / kWarp * kWarp * 2 * kSlot);
  block = &own;
  for (; !may_wait && own.begun < threads; ++own.begun) {
    own.current = own.begun;
    threadIdx = {own.begun, 0, 0};
    thread();
    own.threads[own.begun].done = true;
  }
  std::vector<unsigned> ready;
  for (;;) {
    if (own.begun < threads) {
      if (unused.empty()) unused.push_back(&TakeFiber());
      Fiber* fiber = unused.back();
      Switch(home, *fiber);
      // A waiting thread keeps its fiber.
      if (!own.threads[own.current].done) std::erase(unused, fiber);
      continue;
    }
    ready.clear();
    unsigned left = 0;
    for (unsigned t = 0; t < threads; ++t) {
      if (own.threads[t].done) continue;
      ++left;
      if (own.threads[t].waits == Waits::kNot) ready.push_back(t);
    }
    if (left == 0) break;
    if (ready.empty()) {
      bool released = false;
      for (unsigned warp = 0; warp < threads; warp += kWarp) {
        released = Release(warp, warp + kWarp, Waits::kForWarp) || released;
      }
      if (!released && !Release(0, threads, Waits::kForBlock)) {
        Die("the threads of a block wait at different places");
      }
      continue;
    }
    std::shuffle(ready.begin(), ready.end(), order);
    for (const unsigned t : ready) {
      own.current = t;
      Fiber* fiber = own.threads[t].fiber;
      Switch(home, *fiber);
      if (own.threads[t].done) unused.push_back(fiber);
    }
  }
  block = nullptr;
  return own.waited;
}

unsigned char* DynamicShared() {
  const auto at = reinterpret_cast<std::uintptr_t>(block->shared.data());
  return reinterpret_cast<unsigned char*>((at + 127) / 128 * 128);
}

void SynchroniseBlock() { GiveWay(Waits::kForBlock); }

int Lane() { return static_cast<int>(block->current % kWarp); }

const void* ShareInWarp(const void* bytes, std::size_t size) {
  Thread& self = block->threads[block->current];
  self.parity ^= 1;
  unsigned char* warp =
      block->slots.data() +
      (block->current / kWarp * 2 + static_cast<unsigned>(self.parity)) * kWarp * kSlot;
  std::memcpy(warp + static_cast<std::size_t>(Lane()) * kSlot, bytes, size);
  GiveWay(Waits::kForWarp);
  return warp;
}

void CopyLater(void* to, const void* from, bool present) {
  const auto aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  if (!aligned(to) || !aligned(from)) Die("a copy of 16 bytes is not aligned to 16 bytes");
  block->threads[block->current].copies.push_back({to, from, present});
}

void EndGroupOfCopies() {
  Thread& self = block->threads[block->current];
  self.groups.push_back(std::exchange(self.copies, {}));
}

void FinishCopies(int all_but) {
  auto& groups = block->threads[block->current].groups;
  const auto last = groups.end() - std::min<std::ptrdiff_t>(all_but, std::ssize(groups));
  for (auto group = groups.begin(); group != last; ++group) {
    for (const Copy& copy : *group) {
      if (copy.present) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
    }
  }
  groups.erase(groups.begin(), last);
}

void SetClock(long long nanoseconds) { now = nanoseconds; }
// Reading the clock takes time too.
long long Clock() { return now += 32; }
void Sleep(unsigned nanoseconds) { now += nanoseconds; }

}  // namespace emulated
