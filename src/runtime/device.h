#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/messaging/launch.h"
#include "src/program/data_flow.h"
#include "src/program/instruction.h"
#include "src/program/program.h"
#include "src/runtime/progress.h"

// One rank's device as the executor drives it (executor.h): the part of the runtime that differs
// between host/ and cuda/. A device is made for one program; it has the program's streams, events
// and communicators. All methods are called by the rank's host thread, in host order, and return as
// soon as the work is queued, except where they say that they wait.
namespace stepcast::runtime {

using messaging::Attempt;
using messaging::Failure;
using program::OperationId;

// When a kernel, copy, collective, exchange or host task ran, by the device's clock.
struct OperationTimes {
  OperationId operation;
  Time ready;  // its stream and its waits had let it go; a collective then waited for its
               // communicator until `start`
  Time start;
  Time end;
};

// A stream stood at a wait that was not satisfied yet.
struct WaitTimes {
  std::uint64_t call = 0;  // the call of Device::Wait, counted from 0
  Time start;
  Time end;
};

// What kernels that write gradients put there.
enum class GradientRule : std::uint8_t {
  // What the kernel computes. Matrix products write their result; other kernels, and layers with
  // given times, the gradient of a quadratic loss, which pulls every parameter to a target that
  // depends on rank and micro-batch.
  kComputed,
  // Small integers, made from the bits of the parameters as the kernel reads them, rank, step and
  // micro-batch: sums are exact in any order, and one wrong parameter bit anywhere shows. For
  // tests that compare plans bit by bit.
  kSmallIntegers,
};

struct MemoryUse {
  Bytes peak;      // most bytes that the program's buffers had at once
  Bytes reserved;  // most bytes that the device's pool held for them
  Bytes outside;   // context, libraries: what the pool does not see; zero if unknown
};

class Device {
 public:
  virtual ~Device() = default;

  // Allocates the buffer, or says that it does not fit.
  virtual Attempt<void> Allocate(program::Index buffer, std::uint16_t stream) = 0;
  virtual Attempt<void> Release(program::Index buffer) = 0;
  virtual void RecordStream(program::Index buffer, std::uint16_t stream) = 0;

  // Work for the instruction's stream. Uses and effects are those of the instruction. Waits when
  // about 1024 operations are outstanding, as CUDA does: so far the host runs ahead.
  virtual Attempt<void> Launch(OperationId operation, const program::Instruction& instruction) = 0;

  virtual Attempt<void> Record(program::Index event, std::uint16_t stream) = 0;
  virtual Attempt<void> Wait(program::Index event, std::uint16_t stream) = 0;
  virtual Attempt<void> HostWait(program::Index event) = 0;  // waits

  // Everything between BeginCapture and EndCapture is recorded instead of run; Replay runs it once.
  // A device that cannot says so.
  virtual Attempt<void> BeginCapture() = 0;
  virtual Attempt<void> EndCapture() = 0;
  virtual Attempt<void> Replay(std::uint32_t step) = 0;

  // Waits until all queued work is done.
  virtual Attempt<void> Synchronise() = 0;

  // The times of everything that ran since the last call, in order of (end, issue). After
  // Synchronise.
  virtual Attempt<std::vector<OperationTimes>> TakeTimes() = 0;
  // The waits since the last call that were not satisfied at once, as far as the device can tell.
  // After Synchronise.
  virtual std::vector<WaitTimes> TakeWaits() { return {}; }
  // The device's clock now, as seen by the host: the same clock as OperationTimes.
  virtual Time Now() = 0;

  // From now on the device counts the operations of the step that it finished, and names one that
  // is running, there; null: no more. `progress` outlives the device or the next call. False: it
  // cannot; the executor then reports what it issues.
  virtual bool ReportTo(Progress* /*progress*/) { return false; }

  virtual MemoryUse Memory() const = 0;
  // Waits. Values of `count` elements, as FP32.
  virtual Attempt<std::vector<float>> Read(const program::Elements& from, std::int64_t count) = 0;
};

}  // namespace stepcast::runtime
