#include "src/runtime/host/backend.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/program/description.h"
#include "src/runtime/host/mpi_transport.h"
#include "src/runtime/host/thread_transport.h"
#include "src/runtime/mpi_session.h"

namespace stepcast::runtime::host {
namespace {

using program::Index;
using program::kNone;

// The free memory of this machine, divided among its ranks.
Bytes FreeMemory(int local_ranks) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes && std::getline(file, unit)) {
    if (key == "MemAvailable:") return KiB(kibibytes / std::max(1, local_ranks));
  }
  return Bytes(std::numeric_limits<std::int64_t>::max() / 4);
}

Attempt<std::unique_ptr<Transport>> Connect(Job& job) {
  Attempt<std::unique_ptr<Transport>> transport = ConnectThreads(job);
  if (!transport || *transport != nullptr) return transport;
  transport = ConnectMpi(job);
  if (!transport || *transport != nullptr) return transport;
  return tl::unexpected(
      Failure{"with the host backend, ranks in different processes need MPI: start the processes "
              "with mpirun, or run all ranks in one process"});
}

}  // namespace

Attempt<std::unique_ptr<HostDevice>> HostDevice::Make(const program::Program& program, Job& job,
                                                      const DeviceOptions& options) {
  const Place& place = job.place();
  STEPCAST_TAKE(std::unique_ptr<Transport> transport, Connect(job));
  const Bytes free = FreeMemory(place.local_ranks);
  Attempt<KernelWork> work = KernelWork::Make(
      program, free, options.seed ^ (std::uint64_t{0x9e3779b97f4a7c15} * (place.rank + 1)));
  // Every rank reports its result, so that none continues without another.
  const auto told = [&](const Attempt<void>& own) -> Attempt<void> {
    STEPCAST_TAKE(const std::vector<std::string> all,
                  job.Gather(own ? std::string() : own.error().message));
    std::string first;
    for (std::size_t rank = 0; rank < all.size() && first.empty(); ++rank) {
      if (!all[rank].empty()) first = fmt::format("rank {}: {}", rank, all[rank]);
    }
    STEPCAST_TAKE(const std::string heard, job.Broadcast(first));
    if (!own) {
      Failure failure = own.error();
      failure.message = fmt::format("rank {}: {}", place.rank, failure.message);
      return tl::unexpected(std::move(failure));
    }
    if (!heard.empty()) return tl::unexpected(Failure{heard});
    return {};
  };
  Attempt<void> own;
  if (!work) own = tl::unexpected(work.error());
  STEPCAST_TRY(told(own));

  // On a machine that overcommits memory, the kernel kills processes without a message.
  Bytes limit = free - work->size();
  if (options.memory_limit > Bytes(0)) limit = std::min(limit, options.memory_limit);
  std::unique_ptr<HostDevice> device(
      new HostDevice(program, place.rank, options, limit, std::move(transport), *std::move(work)));
  own = device->OpenCommunicators();
  if (!own) device->GiveUp(fmt::format("rank {}: {}", place.rank, own.error().message));
  STEPCAST_TRY(told(own));
  return device;
}

HostDevice::HostDevice(const program::Program& program, int rank, const DeviceOptions& options,
                       Bytes limit, std::unique_ptr<Transport> transport, KernelWork work)
    : program_(program),
      rank_(rank),
      options_(options),
      transport_(std::move(transport)),
      work_(std::move(work)),
      events_(program.events.size()),
      state_(program.buffers.size()) {
  for (const program::StatePart& part : program.data_flow.state) {
    state_[part.place.buffer].push_back(part);
  }
  streams_.emplace(clock_, static_cast<int>(program.streams.size()),
                   [this](const Failure& failure) {
                     GiveUp(fmt::format("rank {} failed: {}", rank_, failure.message));
                   });
  pool_.emplace(program.buffers, limit, options.seed + static_cast<std::uint64_t>(rank),
                MemoryPool::StreamPositions{
                    [this](std::uint16_t stream) { return streams_->Finished(stream); },
                    [this](std::uint16_t stream) { return streams_->Now(stream).issued; }});
}

HostDevice::~HostDevice() {
  streams_->Stop();
  GiveUp(fmt::format("rank {} has ended", rank_));
  streams_.reset();
}

void HostDevice::GiveUp(const std::string& why) {
  for (const auto& communicator : communicators_) {
    if (communicator != nullptr) communicator->Close();
  }
  transport_->Abandon(why);
}

Attempt<void> HostDevice::OpenCommunicators() {
  std::vector<int> positions;
  for (const program::Communicator& communicator : program_.communicators) {
    const std::vector<int>& ranks = program_.groups[communicator.group].ranks;
    const auto found = std::find(ranks.begin(), ranks.end(), rank_);
    if (found == ranks.end()) {
      return tl::unexpected(Failure{fmt::format(
          "the communicator '{}' of the program does not include the rank", communicator.name)});
    }
    positions.push_back(static_cast<int>(found - ranks.begin()));
    STEPCAST_TAKE(std::unique_ptr<Channel> channel, transport_->Open(communicator.name, ranks));
    communicators_.push_back(
        std::make_unique<Communicator>(std::move(channel), static_cast<int>(ranks.size())));
  }
  for (const program::Collective& collective : program_.collectives) {
    const Index index = collective.communicator;
    Attempt<void> right = communicators_[index]->CheckSums(collective, positions[index]);
    if (!right) {
      Failure failure = right.error();
      failure.message = fmt::format("the check of {} of {} bytes on communicator '{}' failed: {}",
                                    Name(collective.kind), collective.bytes.count(),
                                    program_.communicators[index].name, failure.message);
      return tl::unexpected(std::move(failure));
    }
  }
  return {};
}

Attempt<void> HostDevice::Failed() const {
  std::optional<Failure> failure = streams_->failure();
  if (failure) return tl::unexpected(*std::move(failure));
  return {};
}

Attempt<void> HostDevice::Allocate(Index buffer, std::uint16_t stream) {
  const std::optional<MemoryPool::Refusal> refusal =
      pool_->Allocate(buffer, stream, [this] { streams_->WaitForAll(); });
  if (refusal) {
    const program::Buffer& wanted = program_.buffers[buffer];
    return tl::unexpected(
        Failure{fmt::format("out of memory: '{}' needs {} bytes; {} bytes are in use{}",
                            program_.NameOf(wanted), wanted.size.count(), pool_->in_use().count(),
                            *refusal == MemoryPool::Refusal::kLimit ? ", and the limit is reached"
                                                                    : "; the system has no more "
                                                                      "memory"),
                true});
  }
  // Queued work on this stream may still use the memory.
  for (const program::StatePart& part : std::exchange(state_[buffer], {})) {
    streams_->Issue(stream, OperationId{},
                    [part, target = At(part.place), seed = options_.seed](Time&) -> Attempt<void> {
                      WriteInitial(part, target, seed);
                      return {};
                    });
  }
  return Failed();
}

Attempt<void> HostDevice::Release(Index buffer) {
  pool_->Release(buffer);
  return {};
}

void HostDevice::RecordStream(Index buffer, std::uint16_t stream) {
  pool_->RecordStream(buffer, stream);
}

std::byte* HostDevice::At(const program::Elements& elements) const {
  if (elements.buffer == kNone) return nullptr;
  std::byte* data = pool_->Data(elements.buffer);
  STEPCAST_CHECK(data != nullptr, "the effects of an operation must use allocated buffers");
  return data + elements.offset.count();
}

// Addresses are taken now, in host order. When the stream reaches the operation, the buffer may
// have been released and its memory reused.
std::vector<BoundEffect> HostDevice::EffectsOf(OperationId operation) const {
  std::vector<BoundEffect> bound;
  const program::DataFlow& flow = program_.data_flow;
  if (flow.empty() || operation.instruction == kNone) return bound;
  for (Index e = flow.first[operation.instruction]; e < flow.first[operation.instruction + 1];
       ++e) {
    const program::Effect& effect = flow.effects[e];
    bound.push_back({effect, At(effect.target), At(effect.source), At(effect.states)});
  }
  return bound;
}

EffectContext HostDevice::ContextOf(OperationId operation,
                                    const program::Instruction& instruction) const {
  EffectContext context;
  context.rank = rank_;
  context.step = operation.step;
  context.micro_batch = instruction.micro_batch;
  context.gradients = options_.gradients;
  context.adamw = program_.data_flow.adamw;
  return context;
}

Attempt<void> HostDevice::Launch(OperationId operation, const program::Instruction& instruction) {
  STEPCAST_TRY(Failed());
  switch (instruction.opcode) {
    case program::Opcode::kKernel:
      LaunchKernel(operation, instruction);
      return {};
    case program::Opcode::kCopy:
      LaunchCopy(operation, instruction);
      return {};
    case program::Opcode::kCollective:
      LaunchCollective(operation, instruction);
      return {};
    case program::Opcode::kExchange:
      LaunchExchange(operation, instruction);
      return {};
    default:
      break;
  }
  STEPCAST_CHECK(false, "only kernels, copies, collectives and exchanges can be launched");
  return {};
}

void HostDevice::LaunchKernel(OperationId operation, const program::Instruction& instruction) {
  const Kernel& kernel = program_.kernels[instruction.operand];
  EffectContext context = ContextOf(operation, instruction);
  std::vector<BoundEffect> effects = EffectsOf(operation);
  const std::uint16_t stream = instruction.stream;
  const auto apply = [](const std::vector<BoundEffect>& list, const EffectContext& with) {
    for (const BoundEffect& effect : list) Apply(effect, with);
  };
  switch (kernel.kind) {
    case KernelKind::kGiven:
      streams_->Issue(stream, operation,
                      [=, this, &kernel, effects = std::move(effects)](Time& start) {
                        apply(effects, context);
                        if (kernel.given > Time()) clock_.SleepUntil(start + kernel.given);
                        return Attempt<void>();
                      });
      return;
    case KernelKind::kGemm:
      streams_->Issue(stream, operation,
                      [=, this, &kernel, effects = std::move(effects)](Time&) mutable {
                        context.product = work_.Multiply(kernel, stream);
                        context.product_elements = kernel.m * kernel.n;
                        apply(effects, context);
                        return Attempt<void>();
                      });
      return;
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      streams_->Issue(stream, operation, [=, this, &kernel, effects = std::move(effects)](Time&) {
        work_.Attend(kernel, stream);
        apply(effects, context);
        return Attempt<void>();
      });
      return;
    case KernelKind::kMemoryBound:
    case KernelKind::kOptimizer:
    case KernelKind::kScan:
    case KernelKind::kScanGradient:
      streams_->Issue(stream, operation, [=, this, &kernel, effects = std::move(effects)](Time&) {
        apply(effects, context);
        Bytes read = kernel.read;
        Bytes written = kernel.written;
        for (const BoundEffect& bound : effects) {
          const bool optimizer = bound.effect.kind == program::EffectKind::kUpdate;
          // An optimizer's effects move all the bytes of its kernel.
          read = optimizer ? Bytes(0) : read - Bytes(BytesMoved(bound.effect) / 2);
          written = optimizer ? Bytes(0) : written - Bytes(BytesMoved(bound.effect) / 2);
        }
        work_.MoveBytes(std::max(read, Bytes(0)), std::max(written, Bytes(0)), stream);
        return Attempt<void>();
      });
      return;
  }
}

void HostDevice::LaunchCopy(OperationId operation, const program::Instruction& instruction) {
  const Bytes bytes = program_.copies[instruction.operand].bytes;
  const EffectContext context = ContextOf(operation, instruction);
  streams_->Issue(instruction.stream, operation,
                  [=, this, stream = instruction.stream, effects = EffectsOf(operation)](Time&) {
                    Bytes left = bytes;
                    for (const BoundEffect& bound : effects) {
                      Apply(bound, context);
                      left -= Bytes(BytesMoved(bound.effect) / 2);
                    }
                    left = std::max(left, Bytes(0));
                    work_.MoveBytes(left, left, stream);
                    return Attempt<void>();
                  });
}

void HostDevice::LaunchCollective(OperationId operation, const program::Instruction& instruction) {
  const program::Collective& collective = program_.collectives[instruction.operand];
  Communicator& communicator = *communicators_[collective.communicator];
  const EffectContext context = ContextOf(operation, instruction);
  streams_->Issue(instruction.stream, operation,
                  [=, this, &collective, &communicator, ticket = communicator.TakeTicket(),
                   effects = EffectsOf(operation)](Time& start) -> Attempt<void> {
                    if (!communicator.AwaitTurn(ticket)) {
                      return tl::unexpected(Failure{"the run was aborted", false, operation});
                    }
                    start = clock_.Now();
                    bool carries = false;
                    for (const BoundEffect& bound : effects) {
                      const program::Effect& effect = bound.effect;
                      if (effect.kind != program::EffectKind::kCollective) {
                        Apply(bound, context);
                        continue;
                      }
                      carries = true;
                      Attempt<void> done = communicator.Run(
                          collective, effect.elements,
                          {const_cast<std::byte*>(bound.source), effect.source.type},
                          {bound.target, effect.target.type});
                      if (!done) {
                        return tl::unexpected(
                            Failure{done.error().message, done.error().out_of_memory, operation});
                      }
                    }
                    if (!carries) {
                      Attempt<void> done = communicator.RunEmpty(collective);
                      if (!done) {
                        return tl::unexpected(
                            Failure{done.error().message, done.error().out_of_memory, operation});
                      }
                    }
                    communicator.EndTurn();
                    return {};
                  });
}

void HostDevice::LaunchExchange(OperationId operation, const program::Instruction& instruction) {
  const program::Exchange& exchange = program_.exchanges[instruction.operand];
  const program::ProcessGroup& group =
      program_.groups[program_.communicators[exchange.communicator].group];
  const int position = group.PositionOf(rank_);
  const auto size = static_cast<int>(group.ranks.size());
  std::vector<MessageCall> messages;
  for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
    const program::Message& message = exchange.messages[i];
    const program::BufferUse& use = program_.uses[instruction.first_use + i];
    messages.push_back({.direction = message.direction,
                        .peer = exchange.PeerPosition(message, position, size),
                        .bytes = message.bytes.count(),
                        .data = At({.buffer = use.buffer, .offset = use.offset})});
  }
  Communicator& communicator = *communicators_[exchange.communicator];
  streams_->Issue(instruction.stream, operation,
                  [=, this, &communicator, ticket = communicator.TakeTicket(),
                   messages = std::move(messages)](Time& start) -> Attempt<void> {
                    if (!communicator.AwaitTurn(ticket)) {
                      return tl::unexpected(Failure{"the run was aborted", false, operation});
                    }
                    start = clock_.Now();
                    if (Attempt<void> done = communicator.Exchange(messages); !done) {
                      return tl::unexpected(
                          Failure{done.error().message, done.error().out_of_memory, operation});
                    }
                    communicator.EndTurn();
                    return {};
                  });
}

Attempt<void> HostDevice::Record(Index event, std::uint16_t stream) {
  events_[event] = streams_->Now(stream);
  return {};
}

Attempt<void> HostDevice::Wait(Index event, std::uint16_t stream) {
  const std::uint64_t call = wait_calls_++;
  const Position until = events_[event];
  // A stream need not wait for itself.
  if (until.issued > 0 && until.stream != stream) streams_->IssueWait(stream, until, call);
  return {};
}

Attempt<void> HostDevice::HostWait(Index event) {
  streams_->WaitFor(events_[event]);
  return Failed();
}

Attempt<void> HostDevice::BeginCapture() {
  return tl::unexpected(Failure{"the host backend cannot capture and replay a step (--graph)"});
}
Attempt<void> HostDevice::EndCapture() { return BeginCapture(); }
Attempt<void> HostDevice::Replay(std::uint32_t /*step*/) { return BeginCapture(); }

Attempt<void> HostDevice::Synchronise() {
  streams_->WaitForAll();
  return Failed();
}

Attempt<std::vector<OperationTimes>> HostDevice::TakeTimes() { return streams_->TakeTimes(); }
std::vector<WaitTimes> HostDevice::TakeWaits() { return streams_->TakeWaits(); }
Time HostDevice::Now() { return clock_.Now(); }
bool HostDevice::ReportTo(Progress* progress) {
  streams_->ReportTo(progress);
  return true;
}

MemoryUse HostDevice::Memory() const { return {pool_->peak(), pool_->reserved(), work_.size()}; }

Attempt<std::vector<float>> HostDevice::Read(const program::Elements& from, std::int64_t count) {
  STEPCAST_TRY(Synchronise());
  STEPCAST_CHECK(pool_->Data(from.buffer) != nullptr, "a buffer must exist before it is read");
  std::vector<float> values(static_cast<std::size_t>(count));
  ReadValues(At(from), from.type, count, values.data());
  return values;
}

namespace {

// Each rank has some threads, and systems allow a process some ten thousand.
constexpr int kMostThreadRanks = 1024;

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

class HostBackend : public Backend {
 public:
  const char* name() const override { return "host"; }

  std::vector<std::pair<std::string, std::string>> Describe() const override {
    std::vector<std::pair<std::string, std::string>> facts;
    facts.emplace_back("cpu", CpuModel());
    facts.emplace_back("cores", std::to_string(std::thread::hardware_concurrency()));
    utsname system{};
    if (uname(&system) == 0) {
      facts.emplace_back("kernel", std::string(system.sysname) + " " + system.release);
    }
    const Attempt<const Blas*> blas = Blas::Load();
    facts.emplace_back("blas", blas ? (*blas)->Version() : "none");
    const MpiSession* mpi = MpiSession::Current();
    facts.emplace_back("mpi",
                       mpi != nullptr ? mpi->LibraryVersion() : "none, because ranks are threads");
    return facts;
  }

  int MaxLocalRanks() const override { return kMostThreadRanks; }

  Attempt<std::unique_ptr<Device>> MakeDevice(const program::Program& program, Job& job,
                                              const DeviceOptions& options) override {
    STEPCAST_TAKE(std::unique_ptr<HostDevice> device, HostDevice::Make(program, job, options));
    return std::unique_ptr<Device>(std::move(device));
  }
};

}  // namespace

std::unique_ptr<Backend> MakeHostBackend() {
  // Loading OpenBLAS may set environment variables. If it is missing, products report that later.
  (void)Blas::Load();
  return std::make_unique<HostBackend>();
}

}  // namespace stepcast::runtime::host
