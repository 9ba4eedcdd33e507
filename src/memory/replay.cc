#include "src/memory/replay.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/memory/program_order_replay.h"
#include "src/memory/requests.h"
#include "src/memory/timed_replay.h"
#include "src/program/instruction_head.h"

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::LongerStep;
using program::Program;
using program::Timeline;

namespace {

// The requests that calls of the driver were numbered by, as instructions of a program with these.
void NameInstructions(const Program& program, std::vector<DriverCallsAt>& calls) {
  Index request = 0;
  auto next = calls.begin();
  for (Index i = 0; i < program.step.size() && next != calls.end(); ++i) {
    if (!ChangesMemory(program.step[i])) continue;
    if (request++ == next->instruction) (next++)->instruction = i;
  }
}

}  // namespace

// What was replayed last, by all that its figures depend on.
struct Replayer::Workspace {
  using Key = std::vector<std::int64_t>;
  struct Known {
    Key key;
    Usage usage;
  };

  // Sets `key`, of which `key_size` words count.
  void TakeKey(const Program& program, std::size_t count, const Steps& steps,
               const Device& device) {
    const LongerStep longer = steps.longer.value_or(LongerStep{});
    const std::initializer_list<std::int64_t> first = {
        longer.begin,
        longer.end,
        longer.micro_batches,
        longer.more,
        static_cast<std::int64_t>(count),
        steps.described,
        device.capacity.count(),
        static_cast<std::int64_t>(device.allocator),
        static_cast<std::int64_t>(program.streams.size()),
        static_cast<std::int64_t>(program.buffers.size())};
    const std::size_t most = first.size() + 2 * program.buffers.size() + program.prologue.size() +
                             program.step.size() + 1;
    if (key.size() < most) key.resize(most);
    auto at = std::copy(first.begin(), first.end(), key.begin());
    for (const program::Buffer& buffer : program.buffers) {
      *at++ = buffer.size.count();
      *at++ = buffer.padding.count() << 3 | static_cast<std::int64_t>(buffer.category);
    }
    // Which instructions change memory cannot be foreseen: all are written, the others over again.
    const auto add = [&at](const std::vector<Instruction>& instructions) {
      for (const Instruction& instruction : instructions) {
        *at = static_cast<std::int64_t>(program::HeadOf(instruction));
        at += ChangesMemory(instruction) ? 1 : 0;
      }
    };
    add(program.prologue);
    *at++ = -1;
    add(program.step);
    key_size = static_cast<std::size_t>(at - key.begin());
  }

  // Rows differ where their keys begin: in sizes of buffers.
  const Usage* Find() const {
    for (const Known& one : known) {
      if (one.key.size() == key_size && std::equal(one.key.begin(), one.key.end(), key.begin())) {
        return &one.usage;
      }
    }
    return nullptr;
  }

  // In place of the one that was kept first.
  void Keep(const Usage& usage) {
    Known& oldest = known[next];
    next = (next + 1) % known.size();
    oldest.key.assign(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(key_size));
    oldest.usage = usage;
  }

  Requests requests;
  ProgramOrderReplay in_program_order;
  Key key;
  std::size_t key_size = 0;
  // Rows of a sweep that need the same are near one another.
  std::array<Known, 16> known;
  std::size_t next = 0;
};

Replayer::Replayer() : workspace_(std::make_unique<Workspace>()) {}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;
Replayer& Replayer::operator=(Replayer&&) noexcept = default;

Usage Replayer::Figures(const Program& program, const Timeline& timeline,
                        const DeferredFrees& deferred, const Device& device, const Steps& steps) {
  if (deferred.any()) return ReplayTimed(program, timeline, deferred, device, steps, nullptr);
  Workspace& workspace = *workspace_;
  const std::size_t count = timeline.step_ends.size();
  const auto replay = [&] {
    workspace.requests.Take(program, steps.longer);
    return workspace.in_program_order.Figures(workspace.requests, count, steps, device);
  };
  if (device.allocator == Allocator::kNone) return replay();
  workspace.TakeKey(program, count, steps, device);
  const Usage* known = workspace.Find();
  Usage usage = known != nullptr ? *known : replay();
  if (known == nullptr) workspace.Keep(usage);
  NameInstructions(program, usage.step_calls);
  return usage;
}

Account Record(const Program& program, const Timeline& timeline, const Device& device,
               const Steps& steps) {
  Account account;
  const DeferredFrees deferred(program);
  account.usage = ReplayTimed(program, timeline, deferred, device, steps, &account);
  return account;
}

}  // namespace stepcast::memory
