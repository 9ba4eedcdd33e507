#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/expected.h"
#include "src/base/time.h"
#include "src/messaging/launch.h"
#include "src/program/data_flow.h"
#include "src/program/instruction.h"
#include "src/program/program.h"

// One rank's device, used by the executor (executor.h). Only this part of the runtime differs
// between host/ and cuda/. A device is created for one program, with its streams, events and
// communicators. The rank's host thread calls all methods, in host order. A method returns when its
// work is queued, unless its comment says that it waits.
namespace stepcast::runtime {

// A device's clock, power and temperature at one point in time.
struct DeviceHealth {
  int clock_mhz = 0;  // clock of the multiprocessors
  int watts = 0;      // current power
  int limit_watts = 0;
  int celsius = 0;
  std::vector<std::string> slowed_by;  // "power limit", "temperature", "power brake"
};

// The progress of a run, which the watch's thread reads (watch.h) and the device updates while the
// rank's thread waits or runs ahead. `instruction` is the longest-running operation, such as a
// collective that waits for another rank. Between operations, `instruction` does not change.
struct Progress {
  std::atomic<std::uint64_t> operations = 0;                 // number of finished operations
  std::atomic<std::uint32_t> step = 0;                       // counted from 0, including warm-up
                                                             // steps
  std::atomic<program::Index> instruction = program::kNone;  // index in Program::step; kNone: no
                                                             // operation yet
};

using messaging::Attempt;
using messaging::Failure;
using program::OperationId;

// The times of a kernel, copy, collective, exchange or host task, by the device's clock.
struct OperationTimes {
  OperationId operation;
  Time ready;  // earlier work and waits are done; a collective then waits for its communicator
  Time start;
  Time end;
};

// A stream's wait for an event that was not complete when the wait was reached.
struct WaitTimes {
  std::uint64_t call = 0;  // index of the call among all calls of Device::Wait
  Time start;
  Time end;
};

// The rule by which kernels compute the values that they write as gradients.
enum class GradientRule : std::uint8_t {
  // GEMMs write their results as gradients. Other kernels, and layers of layer lists, write the
  // gradient of a quadratic loss. The quadratic loss is smallest if each parameter equals its
  // target. The targets depend on rank and micro-batch.
  kComputed,
  // For tests that compare plans bit by bit. Gradients are small integers that depend on the rank,
  // the step, the micro-batch, and the bits of the parameters that the kernel reads. Sums of
  // gradients are therefore exact in any order, and a single wrong bit of a parameter changes the
  // result.
  kSmallIntegers,
};

struct MemoryUse {
  Bytes peak;      // maximum bytes of the program's allocated buffers
  Bytes reserved;  // maximum bytes that the device's pool reserved for buffers
  Bytes outside;   // CUDA context and libraries, outside the pool; zero if unknown
};

class Device {
 public:
  virtual ~Device() = default;

  // Allocates memory for the buffer. Fails if the buffer does not fit.
  virtual Attempt<void> Allocate(program::Index buffer, std::uint16_t stream) = 0;
  virtual Attempt<void> Release(program::Index buffer) = 0;
  virtual void RecordStream(program::Index buffer, std::uint16_t stream) = 0;

  // Enqueues an instruction on its stream, with its uses and effects. If about 1024 operations are
  // outstanding, the call waits, as in CUDA.
  virtual Attempt<void> Launch(OperationId operation, const program::Instruction& instruction) = 0;

  virtual Attempt<void> Record(program::Index event, std::uint16_t stream) = 0;
  virtual Attempt<void> Wait(program::Index event, std::uint16_t stream) = 0;
  virtual Attempt<void> HostWait(program::Index event) = 0;  // blocks the host

  // Work between BeginCapture and EndCapture is recorded but not run. Each Replay runs the recorded
  // work once. The functions for capture and replay fail if the device does not support capture.
  virtual Attempt<void> BeginCapture() = 0;
  virtual Attempt<void> EndCapture() = 0;
  virtual Attempt<void> Replay(std::uint32_t step) = 0;

  // Waits until all queued work is done.
  virtual Attempt<void> Synchronise() = 0;

  // Returns the times of all operations since the last call, ordered by end and then by issue. Call
  // Synchronise first.
  virtual Attempt<std::vector<OperationTimes>> TakeTimes() = 0;
  // Returns the waits since the last call that were not satisfied immediately. Empty if the device
  // does not record waits. Call Synchronise first.
  virtual std::vector<WaitTimes> TakeWaits() { return {}; }
  // Returns the current time of the device's clock. OperationTimes uses the same clock.
  virtual Time Now() = 0;

  // Makes the device update `progress` until the next call. Null: no updates. `progress` must exist
  // until the next call or until the device is destroyed. Returns false if the device does not
  // support this function; the executor then reports the operations that it issues.
  virtual bool ReportTo(Progress* /*progress*/) { return false; }

  virtual MemoryUse Memory() const = 0;
  // Waits for all queued work, then returns `count` elements converted to FP32.
  virtual Attempt<std::vector<float>> Read(const program::Elements& from, std::int64_t count) = 0;
};

}  // namespace stepcast::runtime
