#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/program/program.h"
#include "src/runtime/backend.h"
#include "src/runtime/device.h"
#include "src/runtime/host/clock.h"
#include "src/runtime/host/communicator.h"
#include "src/runtime/host/kernel_work.h"
#include "src/runtime/host/memory_pool.h"
#include "src/runtime/host/streams.h"
#include "src/runtime/host/transport.h"
#include "src/runtime/host/value_effects.h"

namespace stepcast::runtime::host {

// The device of a rank that runs on CPU cores. Each stream is a thread. Kernels do the work of
// kernel_work.h, layers of layer lists sleep, effects change memory, and collectives use a
// transport. The device does not support the capture of steps.
//
// The work of an operation, in order:
//   kernels of layer lists: the effects; then a sleep until the given time is over
//   GEMMs: the GEMMs; then the effects
//   attention: the attention; then the effects
//   memory-bound and optimizer kernels, copies: the effects; then the remaining bytes
//   collectives: the effects, which include the collective; without effects, a collective of the
//     same size on scratch memory
//   exchanges: messages from and to the buffers of the instruction's uses
class HostDevice : public Device {
 public:
  // Creates the device. All ranks of the job call this function together.
  static Attempt<std::unique_ptr<HostDevice>> Make(const program::Program& program, Job& job,
                                                   const DeviceOptions& options);
  // Ends the device. After a failure, or if work is queued, drops work that has not begun, notifies
  // the other ranks, and waits for running work.
  ~HostDevice() override;

  Attempt<void> Allocate(program::Index buffer, std::uint16_t stream) override;
  Attempt<void> Release(program::Index buffer) override;
  void RecordStream(program::Index buffer, std::uint16_t stream) override;
  Attempt<void> Launch(OperationId operation, const program::Instruction& instruction) override;
  Attempt<void> Record(program::Index event, std::uint16_t stream) override;
  Attempt<void> Wait(program::Index event, std::uint16_t stream) override;
  Attempt<void> HostWait(program::Index event) override;
  Attempt<void> BeginCapture() override;
  Attempt<void> EndCapture() override;
  Attempt<void> Replay(std::uint32_t step) override;
  Attempt<void> Synchronise() override;
  Attempt<std::vector<OperationTimes>> TakeTimes() override;
  std::vector<WaitTimes> TakeWaits() override;
  Time Now() override;
  bool ReportTo(Progress* progress) override;
  MemoryUse Memory() const override;
  Attempt<std::vector<float>> Read(const program::Elements& from, std::int64_t count) override;

 private:
  HostDevice(const program::Program& program, int rank, const DeviceOptions& options, Bytes limit,
             std::unique_ptr<Transport> transport, KernelWork work);

  Attempt<void> OpenCommunicators();
  std::vector<BoundEffect> EffectsOf(OperationId operation) const;
  std::byte* At(const program::Elements& elements) const;
  Attempt<void> Failed() const;  // the failure of queued work, if any
  void GiveUp(const std::string& why);

  void LaunchKernel(OperationId operation, const program::Instruction& instruction);
  void LaunchCopy(OperationId operation, const program::Instruction& instruction);
  void LaunchCollective(OperationId operation, const program::Instruction& instruction);
  void LaunchExchange(OperationId operation, const program::Instruction& instruction);
  EffectContext ContextOf(OperationId operation, const program::Instruction& instruction) const;

  const program::Program& program_;
  int rank_;
  DeviceOptions options_;
  Clock clock_;
  std::unique_ptr<Transport> transport_;
  KernelWork work_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // indexed like the program's
  std::vector<Position> events_;                              // latest record of each event
  std::vector<std::vector<program::StatePart>> state_;        // [buffer]; emptied when written
  std::uint64_t wait_calls_ = 0;
  std::optional<Streams> streams_;
  std::optional<MemoryPool> pool_;
};

// Creates the backend that runs step programs on CPUs. Ranks are threads of this process, or
// processes started by mpirun; with mpirun, MpiSession must be running when devices are created.
// The first call may set OPENBLAS_CORETYPE (blas.h), so call this function before other threads
// read environment variables.
std::unique_ptr<Backend> MakeHostBackend();

}  // namespace stepcast::runtime::host
