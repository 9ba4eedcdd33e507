#include "src/runtime/cuda/gpu_device.h"

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/kernel.h"
#include "src/program/description.h"
#include "src/runtime/cuda/attention.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/synthetic_kernels.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;

Attempt<cudaEvent_t> MakeEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  STEPCAST_TRY(Check(cudaEventCreateWithFlags(&event, flags), "making an event"));
  return event;
}

}  // namespace

GpuDevice::GpuDevice(const program::Program& program, int rank, int ordinal,
                     const DeviceOptions& options)
    : program_(program),
      rank_(rank),
      ordinal_(ordinal),
      options_(options),
      plan_(MakeLaunchPlan(program, options.gradients)),
      marks_(program.events.size(), Mark::kNone),
      state_(program.buffers.size()),
      orders_(program.communicators.size()),
      step_(StepValuesOf(0)) {
  for (const program::StatePart& part : program.data_flow.state) {
    state_[part.place.buffer].push_back(part);
  }
}

Attempt<std::unique_ptr<runtime::Device>> GpuDevice::Make(const program::Program& program, Job& job,
                                                          int ordinal, const DeviceOptions& options,
                                                          CommunicatorCache& cache) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(program, job.place().rank, ordinal, options));
  STEPCAST_TRY(device->Start(job, cache));
  return std::unique_ptr<runtime::Device>(std::move(device));
}

Attempt<void> GpuDevice::Start(Job& job, CommunicatorCache& cache) {
  // Until the device is complete, the destructor must not wait for other ranks.
  failed_ = true;
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), fmt::format("choosing GPU {}", ordinal_)));
  STEPCAST_TRY(MakeStreams());
  clock_ = std::make_unique<OperationClock>(streams_);
  STEPCAST_TAKE(memory_,
                DeviceMemory::Make(program_, streams_, options_.pool, options_.memory_limit));
  STEPCAST_TAKE(products_, Products::Make(plan_.products));
  STEPCAST_TAKE(arenas_, OperandArenas::Make(plan_, streams_, ordinal_, options_.seed));
  STEPCAST_TAKE(effects_, EffectLaunches::Make({.program = program_,
                                                .plan = plan_,
                                                .memory = *memory_,
                                                .streams = streams_,
                                                .gradients = options_.gradients,
                                                .rank = rank_}));
  const char* doing = "allocating memory for internal use";
  STEPCAST_TRY(Check(cudaMalloc(&stamps_, streams_.size() * sizeof(std::uint64_t)), doing));
  STEPCAST_TRY(Check(cudaMalloc(&step_values_, sizeof(StepValues)), doing));
  STEPCAST_TRY(Preload());
  // No rank may begin to communicate while another one loads kernels.
  STEPCAST_TRY(job.Barrier());
  STEPCAST_TAKE(communicators_, Communicators::Make(program_, job, cache));
  STEPCAST_TRY(CheckSums());
  STEPCAST_TRY(Check(cudaDeviceSynchronize(), "getting ready"));
  STEPCAST_TRY(clock_->SetAnchor());
  failed_ = false;
  return {};
}

Attempt<void> GpuDevice::MakeStreams() {
  int least = 0;
  int greatest = 0;
  STEPCAST_TRY(Check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                     "querying the priorities of streams"));
  std::vector<bool> computes(program_.streams.size(), false);
  computes[program::Program::kComputeStream] = true;
  for (const auto* list : {&program_.prologue, &program_.step}) {
    for (const Instruction& instruction : *list) {
      if (instruction.opcode == Opcode::kKernel) computes[instruction.stream] = true;
    }
  }
  for (std::size_t s = 0; s < program_.streams.size(); ++s) {
    cudaStream_t stream = nullptr;
    STEPCAST_TRY(Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                                    computes[s] ? least : greatest),
                       "making a stream"));
    streams_.push_back(stream);
  }
  for (std::size_t e = 0; e < program_.events.size(); ++e) {
    STEPCAST_TAKE(auto event, MakeEvent(cudaEventDisableTiming));
    events_.push_back(event);
  }
  for (CommunicatorOrder& order : orders_) {
    STEPCAST_TAKE(order.done, MakeEvent(cudaEventDisableTiming));
  }
  return {};
}

// Launches every kernel of the program once, on operands that do not matter.
Attempt<void> GpuDevice::Preload() {
  const char* doing = "loading kernels";
  Bytes largest;
  std::uint16_t multiplies = 0;
  for (const Product& product : plan_.products) largest = std::max(largest, Output(product));
  for (const Attention& core : plan_.attentions) largest = std::max(largest, OutputOf(core));
  while (multiplies + std::size_t{1} < streams_.size() && !plan_.multiplies[multiplies])
    ++multiplies;
  std::byte* scratch = nullptr;
  if (largest > Bytes(0)) {
    STEPCAST_TRY(Check(cudaMalloc(&scratch, static_cast<std::size_t>(largest.count())), doing));
  }
  const auto launch = [&]() -> Attempt<void> {
    for (std::size_t p = 0; p < plan_.products.size(); ++p) {
      const std::byte* input = arenas_->input(plan_.products[p].input);
      STEPCAST_TRY(products_->Run(static_cast<Index>(p), 0, input, input, scratch,
                                  arenas_->workspace(multiplies), streams_[multiplies]));
    }
    for (const Attention& core : plan_.attentions) {
      STEPCAST_TRY(Check(
          LaunchAttention(core, arenas_->input(core.type), scratch, streams_[multiplies]), doing));
    }
    // Uses the stamps as scratch space.
    STEPCAST_TRY(effects_->Preload(reinterpret_cast<float*>(stamps_)));
    STEPCAST_TRY(Check(StampTime(stamps_, streams_[0]), doing));
    STEPCAST_TRY(Check(Spin(Time(), nullptr, streams_[0]), doing));
    STEPCAST_TRY(Check(StoreStepValues(step_, step_values_, streams_[0]), doing));
    if (const std::byte* input = arenas_->input(plan_.traffic_type); input != nullptr) {
      // Only reads.
      STEPCAST_TRY(Check(LaunchTraffic({.input = input,
                                        .input_size = Bytes(256),
                                        .from = Bytes(0),
                                        .read = Bytes(256),
                                        .output = nullptr,
                                        .output_size = Bytes(0),
                                        .to = Bytes(0),
                                        .written = Bytes(0)},
                                       streams_[0]),
                         doing));
    }
    return Check(cudaDeviceSynchronize(), doing);
  };
  Attempt<void> launched = launch();
  cudaFree(scratch);
  return launched;
}

GpuDevice::~GpuDevice() {
  cudaSetDevice(ordinal_);
  if (capturing_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(streams_[0], &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  // Work that waits for a lost partner would never end, so communicators are aborted.
  bool busy = failed_;
  for (cudaStream_t stream : streams_) busy = busy || cudaStreamQuery(stream) != cudaSuccess;
  // NCCL ends a communicator, even by Abort, only when no graph refers to it.
  graph_.reset();
  if (busy && communicators_ != nullptr) communicators_->Abort();
  cudaDeviceSynchronize();
  communicators_.reset();
  products_.reset();
  effects_.reset();
  arenas_.reset();
  memory_.reset();
  clock_.reset();
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const CommunicatorOrder& order : orders_) {
    if (order.done != nullptr) cudaEventDestroy(order.done);
  }
  cudaFree(stamps_);
  cudaFree(step_values_);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  cudaGetLastError();
}

Attempt<void> GpuDevice::Failed(Failure failure) {
  failed_ = true;
  return tl::make_unexpected(std::move(failure));
}

// Polls instead of waiting in CUDA, so that a lost partner is noticed.
Attempt<void> GpuDevice::WaitUntil(const std::function<cudaError_t()>& done, const char* doing) {
  const HostClock::time_point begin = HostClock::now();
  HostClock::time_point looked = begin;
  for (;;) {
    const cudaError_t state = Answered(done());
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) return Failed(Check(state, doing).error());
    if (auto collected = clock_->CollectDone(); !collected) {
      return Failed(std::move(collected).error());
    }
    const HostClock::time_point now = HostClock::now();
    // Steps wait often and briefly, so the first 20 ms do not sleep.
    if (now - begin > std::chrono::milliseconds(20)) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (now - looked > std::chrono::milliseconds(50)) {
      looked = now;
      if (auto partners = communicators_->CheckPartners(); !partners) {
        return Failed(std::move(partners).error());
      }
    }
  }
}

bool GpuDevice::ReportTo(Progress* progress) {
  clock_->ReportTo(progress);
  return true;
}

Attempt<void> GpuDevice::Allocate(Index buffer, std::uint16_t stream) {
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  if (auto allocated = memory_->Allocate(buffer, stream); !allocated) {
    return Failed(std::move(allocated).error());
  }
  // Training state gets its initial values at the buffer's first allocation, and keeps them at
  // later ones.
  for (const program::StatePart& part : std::exchange(state_[buffer], {})) {
    const cudaError_t error =
        part.role == program::StateRole::kMoment
            ? cudaMemsetAsync(
                  effects_->At(part.place), 0,
                  static_cast<std::size_t>(BytesOf(part.elements, part.place.type).count()),
                  streams_[stream])
            : LaunchInitialValues(effects_->At(part.place), part.place.type, part.elements,
                                  part.first_element, options_.seed, streams_[stream]);
    STEPCAST_TRY(Check(error, "initialising parameters"));
    clock_->Interrupt(stream);
  }
  return {};
}

Attempt<void> GpuDevice::Release(Index buffer) { return memory_->Release(buffer); }

void GpuDevice::RecordStream(Index buffer, std::uint16_t stream) {
  memory_->RecordStream(buffer, stream);
}

Attempt<void> GpuDevice::Record(Index event, std::uint16_t stream) {
  STEPCAST_TRY(Check(cudaEventRecord(events_[event], streams_[stream]), "recording an event"));
  marks_[event] = capturing_ ? Mark::kCaptured : Mark::kRecorded;
  return {};
}

Attempt<void> GpuDevice::Wait(Index event, std::uint16_t stream) {
  // The event belongs to an earlier replay or to none: it is satisfied.
  if (marks_[event] != (capturing_ ? Mark::kCaptured : Mark::kRecorded)) return {};
  clock_->Interrupt(stream);
  return Check(cudaStreamWaitEvent(streams_[stream], events_[event]), "waiting for an event");
}

Attempt<void> GpuDevice::HostWait(Index event) {
  if (capturing_ || marks_[event] != Mark::kRecorded) return {};
  return WaitUntil([&] { return cudaEventQuery(events_[event]); }, "waiting for an event");
}

Attempt<void> GpuDevice::Launch(OperationId operation, const Instruction& instruction) {
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  if (auto launched = LaunchAny(operation, instruction); !launched) {
    return Failed(std::move(launched).error());
  }
  if (auto collected = clock_->CollectNowAndThen(); !collected) {
    return Failed(std::move(collected).error());
  }
  return {};
}

Attempt<void> GpuDevice::LaunchAny(OperationId operation, const Instruction& instruction) {
  if (operation.instruction == kNone) {
    const std::ptrdiff_t at = &instruction - program_.prologue.data();
    STEPCAST_CHECK(at >= 0 && static_cast<std::size_t>(at) < plan_.prologue.size(),
                   "an instruction must be in the step or in the prologue");
    return LaunchTimed(operation, instruction, plan_.prologue[static_cast<std::size_t>(at)], {});
  }
  if (operation.step != step_.step) {
    step_ = StepValuesOf(operation.step);
    arenas_->BeginStep(operation.step);
  }
  std::span<const Effect> effects;
  const program::DataFlow& flow = program_.data_flow;
  if (!flow.empty()) {
    const Index first = flow.first[operation.instruction];
    effects = std::span(flow.effects).subspan(first, flow.first[operation.instruction + 1] - first);
  }
  return LaunchTimed(operation, instruction, plan_.step[operation.instruction], effects);
}

Attempt<void> GpuDevice::LaunchTimed(OperationId operation, const Instruction& instruction,
                                     const Work& work, std::span<const Effect> effects) {
  const std::uint16_t stream = instruction.stream;
  const bool timed = operation.instruction != kNone;
  OperationClock::Timed times;
  if (timed) {
    STEPCAST_TAKE(times, clock_->Begin(operation, stream));
  }
  const Index communicator = program::CommunicatorOf(program_, instruction);
  if (communicator != program::kNone) {
    if (MustWaitFor(communicator, stream)) {
      STEPCAST_TRY(Check(cudaStreamWaitEvent(streams_[stream], orders_[communicator].done),
                         "waiting for a communicator"));
      if (timed) STEPCAST_TRY(clock_->Waited(times, stream));
    }
  }
  switch (instruction.opcode) {
    case Opcode::kKernel:
      STEPCAST_TRY(LaunchKernel(operation, instruction, work, effects));
      break;
    case Opcode::kCopy:
      STEPCAST_TRY(LaunchCopy(operation, instruction, work));
      break;
    case Opcode::kCollective:
      STEPCAST_TRY(LaunchCollective(operation, instruction, work, effects));
      break;
    case Opcode::kExchange:
      STEPCAST_TRY(LaunchExchange(instruction));
      break;
    default:
      STEPCAST_CHECK(false, "only kernels, copies, collectives and exchanges can be launched");
  }
  if (timed) return clock_->End(times, stream);
  clock_->Interrupt(stream);
  return {};
}

Attempt<void> GpuDevice::LaunchKernel(OperationId operation, const Instruction& instruction,
                                      const Work& work, std::span<const Effect> effects) {
  const Kernel& kernel = program_.kernels[instruction.operand];
  const std::uint16_t stream = instruction.stream;
  const bool given = kernel.kind == KernelKind::kGiven && kernel.given > Time();
  std::uint64_t* stamp = effects.empty() ? nullptr : stamps_ + stream;
  if (given && stamp != nullptr) {
    STEPCAST_TRY(
        Check(StampTime(stamp, streams_[stream]), "starting a kernel with a fixed duration"));
  }
  if (work.product != kNone) STEPCAST_TRY(LaunchProduct(kernel, work, stream));
  if (work.attention != kNone) {
    const Attention& attention = plan_.attentions[work.attention];
    STEPCAST_TRY(Check(
        LaunchAttention(attention, arenas_->input(attention.type) + work.first_operand.count(),
                        arenas_->output(stream) + work.output.count(), streams_[stream]),
        fmt::format("starting '{}'", kernel.name)));
  }
  STEPCAST_TRY(effects_->Launch(work.first_batch, work.last_batch, operation, instruction, Step()));
  if (given) {
    return Check(Spin(kernel.given, stamp, streams_[stream]),
                 "starting a kernel with a fixed duration");
  }
  const bool moves =
      kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer;
  if (!moves) return {};
  return Check(LaunchTraffic({.input = arenas_->input(plan_.traffic_type),
                              .input_size = plan_.inputs[static_cast<int>(plan_.traffic_type)],
                              .from = work.first_operand,
                              .read = work.read,
                              .output = arenas_->output(stream),
                              .output_size = plan_.outputs[stream],
                              .to = work.output,
                              .written = work.written},
                             streams_[stream]),
               fmt::format("starting '{}'", kernel.name));
}

Attempt<void> GpuDevice::LaunchProduct(const Kernel& kernel, const Work& work,
                                       std::uint16_t stream) {
  const Product& product = plan_.products[work.product];
  const std::byte* input = arenas_->input(product.input);
  // Scales the product, a sum of k random numbers, so that gradients change parameters only
  // slightly.
  double scale = 1.0 / static_cast<double>(product.k);
  std::byte* result = arenas_->output(stream) + work.output.count();
  if (work.product_effect != kNone) {
    const Effect& effect = program_.data_flow.effects[work.product_effect];
    result = effects_->At(effect.target);
    scale *= effect.scale;
  }
  for (int time = 0; time < work.times; ++time) {
    auto done = products_->Run(
        work.product, static_cast<float>(scale), input + work.first_operand.count(),
        input + work.second_operand.count(), result, arenas_->workspace(stream), streams_[stream]);
    if (!done) {
      Failure failure = std::move(done).error();
      failure.message = fmt::format("'{}': {}", kernel.name, failure.message);
      return tl::make_unexpected(std::move(failure));
    }
  }
  return {};
}

Attempt<void> GpuDevice::LaunchCopy(OperationId operation, const Instruction& instruction,
                                    const Work& work) {
  const program::CopyDirection direction = program_.copies[instruction.operand].direction;
  const std::uint16_t stream = instruction.stream;
  STEPCAST_TRY(effects_->Launch(work.first_batch, work.last_batch, operation, instruction, Step()));
  // Copies bytes that belong to no effect, between arenas or host memory, piece by piece.
  const bool from_host = direction == program::CopyDirection::kHostToDevice;
  const bool to_host = direction == program::CopyDirection::kDeviceToHost;
  const Bytes input_size = plan_.inputs[static_cast<int>(plan_.traffic_type)];
  Bytes piece = work.read;
  if (from_host || to_host) piece = std::min(piece, plan_.host);
  if (!from_host) piece = std::min(piece, input_size);
  if (!to_host) piece = std::min(piece, plan_.outputs[stream]);
  for (Bytes done; done < work.read; done += piece) {
    const Bytes size = std::min(piece, work.read - done);
    const bool whole = piece == work.read;  // the plan has space for the whole copy
    const std::byte* source =
        from_host ? arenas_->host()
                  : arenas_->input(plan_.traffic_type) + (whole ? work.first_operand.count() : 0);
    std::byte* target =
        to_host ? arenas_->host() : arenas_->output(stream) + (whole ? work.output.count() : 0);
    const cudaMemcpyKind kind = from_host ? cudaMemcpyHostToDevice
                                : to_host ? cudaMemcpyDeviceToHost
                                          : cudaMemcpyDeviceToDevice;
    STEPCAST_TRY(Check(cudaMemcpyAsync(target, source, static_cast<std::size_t>(size.count()), kind,
                                       streams_[stream]),
                       "starting a copy"));
  }
  return {};
}

bool GpuDevice::MustWaitFor(Index communicator, std::uint16_t stream) const {
  const CommunicatorOrder& order = orders_[communicator];
  const bool holds = order.mark == (capturing_ ? Mark::kCaptured : Mark::kRecorded);
  return holds && order.stream != stream;
}

Attempt<void> GpuDevice::LaunchCollective(OperationId operation, const Instruction& instruction,
                                          const Work& work, std::span<const Effect> effects) {
  const program::Collective& collective = program_.collectives[instruction.operand];
  const std::uint16_t stream = instruction.stream;
  const auto ranks = static_cast<std::int64_t>(
      program_.groups[program_.communicators[collective.communicator].group].ranks.size());

  // Other effects keep their order before or after the communication.
  STEPCAST_TRY(
      effects_->Launch(work.first_batch, work.batches_behind, operation, instruction, Step()));
  const CollectiveOperands operands = OperandsOf(
      collective, ranks, effects,
      [this](const program::Elements& elements) { return effects_->At(elements); },
      arenas_->output(stream) + work.staging.count());
  for (const auto& [types, works] : operands.before) {
    STEPCAST_TRY(Check(LaunchMoves(works, types, streams_[stream]), "converting sent data"));
  }

  STEPCAST_TRY(communicators_->Begin());
  Attempt<void> started;
  for (const CollectiveOperands::Part& part : operands.parts) {
    if (!started) break;
    started =
        communicators_->Part(collective, part.elements, part.source, part.target, streams_[stream]);
  }
  if (started && work.read > Bytes(0)) {
    const std::int64_t elements = work.read.count() / SizeOf(collective.data_type) / ranks * ranks;
    started = communicators_->Part(
        collective, elements, arenas_->input(collective.data_type) + work.first_operand.count(),
        arenas_->output(stream) + work.output.count(), streams_[stream]);
  }
  // Ends the group in any case.
  Attempt<void> ended = communicators_->End();
  if (!started) return started;
  if (!ended) return ended;

  for (const auto& [types, works] : operands.after) {
    STEPCAST_TRY(Check(LaunchMoves(works, types, streams_[stream]), "converting received data"));
  }
  STEPCAST_TRY(
      effects_->Launch(work.batches_behind, work.last_batch, operation, instruction, Step()));
  return EndTurn(collective.communicator, stream);
}

Attempt<void> GpuDevice::EndTurn(Index communicator, std::uint16_t stream) {
  CommunicatorOrder& order = orders_[communicator];
  STEPCAST_TRY(Check(cudaEventRecord(order.done, streams_[stream]), "recording an event"));
  order.stream = stream;
  order.mark = capturing_ ? Mark::kCaptured : Mark::kRecorded;
  return {};
}

Attempt<void> GpuDevice::LaunchExchange(const Instruction& instruction) {
  const program::Exchange& exchange = program_.exchanges[instruction.operand];
  const program::ProcessGroup& group =
      program_.groups[program_.communicators[exchange.communicator].group];
  const int position = group.PositionOf(rank_);
  STEPCAST_TRY(communicators_->Begin());
  Attempt<void> started;
  for (std::size_t i = 0; i < exchange.messages.size() && started; ++i) {
    const program::Message& message = exchange.messages[i];
    const program::BufferUse& use = program_.uses[instruction.first_use + i];
    started = communicators_->Move(
        exchange.communicator, message.direction,
        exchange.PeerPosition(message, position, static_cast<int>(group.ranks.size())),
        message.bytes, effects_->At({.buffer = use.buffer, .offset = use.offset}),
        streams_[instruction.stream]);
  }
  // Ends the group in any case.
  Attempt<void> ended = communicators_->End();
  if (!started) return started;
  if (!ended) return ended;
  return EndTurn(exchange.communicator, instruction.stream);
}

// The values of the step being issued.
StepSource GpuDevice::Step() const {
  return {.now = step_, .on_device = capturing_ ? step_values_ : nullptr};
}

// Sends known numbers through every kind of collective in the program.
Attempt<void> GpuDevice::CheckSums() {
  std::vector<std::tuple<CollectiveKind, Index, DataType, bool, int>> checked;
  for (const program::Collective& collective : program_.collectives) {
    const std::tuple key{collective.kind, collective.communicator, collective.data_type,
                         collective.average, collective.root};
    if (std::find(checked.begin(), checked.end(), key) != checked.end()) continue;
    checked.push_back(key);
    STEPCAST_TRY(CheckCollective(program_, collective, rank_, *communicators_, streams_[0]));
  }
  return {};
}

Attempt<void> GpuDevice::Synchronise() {
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  STEPCAST_CHECK(!capturing_, "Synchronise must not be called during a capture");
  for (cudaStream_t stream : streams_) {
    STEPCAST_TRY(WaitUntil([&] { return cudaStreamQuery(stream); }, "waiting for the GPU"));
  }
  if (auto collected = clock_->CollectAll(); !collected) {
    return Failed(std::move(collected).error());
  }
  if (graph_ != nullptr) STEPCAST_TRY(graph_->Collect());
  return clock_->SetAnchor();
}

Attempt<std::vector<OperationTimes>> GpuDevice::TakeTimes() { return clock_->Take(); }

Time GpuDevice::Now() { return clock_->Now(); }

Attempt<void> GpuDevice::BeginCapture() {
  STEPCAST_CHECK(!capturing_ && graph_ == nullptr, "a step can be captured only once");
  // Collects times so far; the graph's own times come later.
  STEPCAST_TRY(Synchronise());
  memory_->BeginCapture();
  // Relaxed mode, because buffers missing from the cache are allocated during the capture.
  STEPCAST_TRY(Check(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeRelaxed),
                     "beginning the capture of a step"));
  capturing_ = true;
  clock_->BeginCapture();
  // The other streams join the capture by waiting for the first.
  auto fork = MakeEvent(cudaEventDisableTiming);
  if (!fork) return Failed(std::move(fork).error());
  Attempt<void> forked = Check(cudaEventRecord(*fork, streams_[0]),
                               "beginning the capture of a "
                               "step");
  for (std::size_t s = 1; s < streams_.size() && forked; ++s) {
    forked = Check(cudaStreamWaitEvent(streams_[s], *fork), "beginning the capture of a step");
  }
  cudaEventDestroy(*fork);
  if (!forked) return Failed(std::move(forked).error());
  return {};
}

Attempt<void> GpuDevice::EndCapture() {
  STEPCAST_CHECK(capturing_, "a capture must have begun");
  const char* doing = "ending the capture of a step";
  for (std::size_t s = 1; s < streams_.size(); ++s) {
    auto join = MakeEvent(cudaEventDisableTiming);
    if (!join) return Failed(std::move(join).error());
    Attempt<void> joined = Check(cudaEventRecord(*join, streams_[s]), doing);
    if (joined) joined = Check(cudaStreamWaitEvent(streams_[0], *join), doing);
    cudaEventDestroy(*join);
    if (!joined) return Failed(std::move(joined).error());
  }
  capturing_ = false;
  const std::vector<OperationClock::Timed> operations = clock_->EndCapture();
  cudaGraph_t captured = nullptr;
  if (auto ended = Check(cudaStreamEndCapture(streams_[0], &captured), doing); !ended) {
    return Failed(std::move(ended).error());
  }
  graph_ = std::make_unique<StepGraph>(
      captured, *clock_, [this](const std::function<cudaError_t()>& done, const char* waiting) {
        return WaitUntil(done, waiting);
      });
  // Events recorded in the graph mean nothing outside it.
  for (Mark& mark : marks_) mark = Mark::kNone;
  for (CommunicatorOrder& order : orders_) order.mark = Mark::kNone;
  if (auto places = memory_->EndCapture(); !places) return Failed(std::move(places).error());

  if (auto made = graph_->Instantiate(operations); !made) return Failed(std::move(made).error());
  return {};
}

Attempt<void> GpuDevice::Replay(std::uint32_t step) {
  STEPCAST_CHECK(!capturing_ && graph_ != nullptr, "a step must be captured before it is replayed");
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  return graph_->Replay(
      step,
      [&] {
        return Check(StoreStepValues(StepValuesOf(step), step_values_, streams_[0]),
                     "replaying a step");
      },
      streams_[0]);
}

MemoryUse GpuDevice::Memory() const {
  MemoryUse use{.peak = memory_->peak(), .reserved = memory_->reserved(), .outside = Bytes(0)};
  std::size_t free = 0;
  std::size_t total = 0;
  cudaSetDevice(ordinal_);
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    const Bytes used(static_cast<std::int64_t>(total - free));
    use.outside = std::max(Bytes(0), used - use.reserved - arenas_->size() - effects_->size());
  }
  return use;
}

Attempt<std::vector<float>> GpuDevice::Read(const program::Elements& from, std::int64_t count) {
  STEPCAST_TRY(Synchronise());
  if (memory_->at(from.buffer) == nullptr) {
    return tl::make_unexpected(Failure{fmt::format(
        "buffer '{}' is not allocated", program_.NameOf(program_.buffers[from.buffer]))});
  }
  // Widening is exact, so the host does it.
  std::vector<std::byte> bytes(static_cast<std::size_t>(BytesOf(count, from.type).count()));
  STEPCAST_TRY(
      Check(cudaMemcpy(bytes.data(), effects_->At(from), bytes.size(), cudaMemcpyDeviceToHost),
            "reading values"));
  return Widened(bytes, from.type);
}

}  // namespace stepcast::runtime::cuda
