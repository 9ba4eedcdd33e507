#include "src/runtime/cuda/gpu_device.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/kernel.h"
#include "src/runtime/cuda/attention.h"
#include "src/runtime/cuda/collective_check.h"
#include "src/runtime/cuda/failure.h"
#include "src/runtime/cuda/stand_ins.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;

// What cudaEventElapsedTime gives has FP32 milliseconds.
Time FromMilliseconds(float milliseconds) {
  return Picoseconds(std::llround(static_cast<double>(milliseconds) * 1e9));
}

Time Since(std::chrono::steady_clock::time_point begin) {
  const auto passed = std::chrono::steady_clock::now() - begin;
  return Nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

Attempt<cudaEvent_t> MakeEvent(unsigned flags) {
  cudaEvent_t event = nullptr;
  STEPCAST_TRY(Check(cudaEventCreateWithFlags(&event, flags), "making an event"));
  return event;
}

Attempt<std::byte*> AllocateStandIn(Bytes size, Bytes& total) {
  if (size == Bytes(0)) return nullptr;
  void* at = nullptr;
  STEPCAST_TRY(Check(cudaMalloc(&at, static_cast<std::size_t>(size.count())),
                     fmt::format("allocating {} bytes for operands that the program does not name",
                                 size.count())));
  total += size;
  return static_cast<std::byte*>(at);
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
                                                          int ordinal,
                                                          const DeviceOptions& options) {
  std::unique_ptr<GpuDevice> device(new GpuDevice(program, job.place().rank, ordinal, options));
  STEPCAST_TRY(device->Start(job));
  return std::unique_ptr<runtime::Device>(std::move(device));
}

Attempt<void> GpuDevice::Start(Job& job) {
  // Until everything stands, whatever fails must not wait for other ranks on its way out.
  failed_ = true;
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), fmt::format("choosing GPU {}", ordinal_)));
  STEPCAST_TRY(MakeStreams());
  auto memory = DeviceMemory::Make(program_, streams_, options_.pool, options_.memory_limit);
  if (!memory) return tl::make_unexpected(std::move(memory).error());
  memory_ = std::move(*memory);
  auto products = Products::Make(plan_.products);
  if (!products) return tl::make_unexpected(std::move(products).error());
  products_ = std::move(*products);
  STEPCAST_TRY(MakeStandIns());
  auto communicators = Communicators::Make(program_, job);
  if (!communicators) return tl::make_unexpected(std::move(communicators).error());
  communicators_ = std::move(*communicators);
  STEPCAST_TRY(CheckSums());
  STEPCAST_TRY(Check(cudaDeviceSynchronize(), "getting ready"));
  STEPCAST_TRY(SetAnchor());
  failed_ = false;
  return {};
}

Attempt<void> GpuDevice::MakeStreams() {
  int least = 0;
  int greatest = 0;
  STEPCAST_TRY(Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
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
    auto event = MakeEvent(cudaEventDisableTiming);
    if (!event) return tl::make_unexpected(std::move(event).error());
    events_.push_back(*event);
  }
  for (CommunicatorOrder& order : orders_) {
    auto event = MakeEvent(cudaEventDisableTiming);
    if (!event) return tl::make_unexpected(std::move(event).error());
    order.done = *event;
  }
  return {};
}

Attempt<void> GpuDevice::MakeStandIns() {
  const auto allocate = [&](std::vector<std::byte*>& list, Bytes size) -> Attempt<void> {
    Attempt<std::byte*> at = AllocateStandIn(size, stand_in_bytes_);
    if (!at) return tl::make_unexpected(std::move(at).error());
    list.push_back(*at);
    return {};
  };
  for (std::size_t type = 0; type < plan_.inputs.size(); ++type) {
    STEPCAST_TRY(allocate(inputs_, plan_.inputs[type]));
    if (inputs_.back() == nullptr) continue;
    STEPCAST_TRY(Check(FillRandom(inputs_.back(), plan_.inputs[type], static_cast<DataType>(type),
                                  options_.seed, streams_[0]),
                       "making random operands"));
  }
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    STEPCAST_TRY(allocate(outputs_, plan_.outputs[s]));
    STEPCAST_TRY(allocate(workspaces_, plan_.multiplies[s] ? Products::kWorkspace : Bytes(0)));
  }
  const char* doing = "allocating memory of its own";
  if (plan_.host > Bytes(0)) {
    void* at = nullptr;
    STEPCAST_TRY(Check(cudaMallocHost(&at, static_cast<std::size_t>(plan_.host.count())),
                       "allocating pinned memory"));
    host_ = static_cast<std::byte*>(at);
    std::fill_n(reinterpret_cast<unsigned char*>(host_), plan_.host.count(), 0x3d);
  }
  STEPCAST_TRY(Check(cudaMalloc(&stamps_, streams_.size() * sizeof(std::uint64_t)), doing));
  STEPCAST_TRY(Check(cudaMalloc(&step_values_, sizeof(StepValues)), doing));
  return Check(cudaStreamSynchronize(streams_[0]), "making random operands");
}

GpuDevice::~GpuDevice() {
  cudaSetDevice(ordinal_);
  if (capturing_) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(streams_[0], &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  // What waits for a partner that is gone would never end.
  bool busy = failed_;
  for (cudaStream_t stream : streams_) busy = busy || cudaStreamQuery(stream) != cudaSuccess;
  // NCCL ends a communicator, also by Abort, only when no graph refers to it any more. A graph that
  // runs goes on and is freed at its end.
  for (GraphInstance& instance : instances_) {
    if (instance.exec != nullptr) cudaGraphExecDestroy(instance.exec);
  }
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
  if (busy && communicators_ != nullptr) communicators_->Abort();
  cudaDeviceSynchronize();
  communicators_.reset();
  products_.reset();
  memory_.reset();
  for (GraphInstance& instance : instances_) {
    if (instance.done != nullptr) cudaEventDestroy(instance.done);
    for (const Timed& timed : instance.operations) pending_.push_back(timed);
  }
  for (const Timed& timed : pending_) {
    if (timed.ready != nullptr && timed.ready != timed.start) cudaEventDestroy(timed.ready);
    if (timed.start != nullptr) cudaEventDestroy(timed.start);
    if (timed.end != nullptr) cudaEventDestroy(timed.end);
  }
  for (cudaEvent_t event : timing_events_) cudaEventDestroy(event);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const CommunicatorOrder& order : orders_) {
    if (order.done != nullptr) cudaEventDestroy(order.done);
  }
  if (anchor_ != nullptr) cudaEventDestroy(anchor_);
  for (const auto* list : {&inputs_, &outputs_, &workspaces_}) {
    for (std::byte* at : *list) cudaFree(at);
  }
  cudaFree(stamps_);
  cudaFree(step_values_);
  cudaFreeHost(host_);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  cudaGetLastError();
}

Attempt<void> GpuDevice::Failed(Failure failure) {
  failed_ = true;
  return tl::make_unexpected(std::move(failure));
}

// Waiting in a loop instead of in CUDA: a partner that is gone is noticed.
Attempt<void> GpuDevice::WaitUntil(const std::function<cudaError_t()>& done, const char* doing) {
  const HostClock::time_point begin = HostClock::now();
  HostClock::time_point looked = begin;
  for (;;) {
    const cudaError_t state = Answered(done());
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) return Failed(Check(state, doing).error());
    ReportProgress();
    const HostClock::time_point now = HostClock::now();
    // Steps wait often and briefly: at first without sleeping.
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
  progress_ = progress;
  return true;
}

void GpuDevice::ReportProgress() {
  if (progress_ == nullptr || capturing_) return;
  while (reported_ < pending_.size() &&
         Answered(cudaEventQuery(pending_[reported_].end)) == cudaSuccess) {
    ++reported_;
    ++progress_->operations;
  }
  if (reported_ == pending_.size()) return;
  progress_->step = pending_[reported_].operation.step;
  progress_->instruction = pending_[reported_].operation.instruction;
}

Attempt<void> GpuDevice::Allocate(Index buffer, std::uint16_t stream) {
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  if (auto allocated = memory_->Allocate(buffer, stream); !allocated) {
    return Failed(std::move(allocated).error());
  }
  // The training's state begins here; later allocations of a buffer find it begun.
  for (const program::StatePart& part : std::exchange(state_[buffer], {})) {
    const cudaError_t error =
        part.role == program::StateRole::kMoment
            ? cudaMemsetAsync(
                  At(part.place), 0,
                  static_cast<std::size_t>(BytesOf(part.elements, part.place.type).count()),
                  streams_[stream])
            : LaunchInitialValues(At(part.place), part.place.type, part.elements,
                                  part.first_element, options_.seed, streams_[stream]);
    STEPCAST_TRY(Check(error, "initialising parameters"));
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
  // Of an earlier replay or of none: satisfied.
  if (marks_[event] != (capturing_ ? Mark::kCaptured : Mark::kRecorded)) return {};
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
  ReportProgress();
  return {};
}

Attempt<void> GpuDevice::LaunchAny(OperationId operation, const Instruction& instruction) {
  if (operation.instruction == kNone) {
    const std::ptrdiff_t at = &instruction - program_.prologue.data();
    STEPCAST_CHECK(at >= 0 && static_cast<std::size_t>(at) < plan_.prologue.size(),
                   "an instruction outside the step is the prologue's");
    return LaunchTimed(operation, instruction, plan_.prologue[static_cast<std::size_t>(at)], {});
  }
  if (operation.step != step_.step) step_ = StepValuesOf(operation.step);
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
  Timed times{.operation = operation};
  const auto mark = [&](cudaEvent_t& event) -> Attempt<void> {
    if (!timed) return {};
    Attempt<cudaEvent_t> taken = TakeTimingEvent();
    if (!taken) return tl::make_unexpected(std::move(taken).error());
    event = *taken;
    return RecordTiming(event, stream);
  };
  if (instruction.opcode == Opcode::kCollective) {
    STEPCAST_TRY(mark(times.ready));
    STEPCAST_TRY(
        WaitForCommunicator(program_.collectives[instruction.operand].communicator, stream));
  }
  STEPCAST_TRY(mark(times.start));
  if (instruction.opcode != Opcode::kCollective) times.ready = times.start;
  switch (instruction.opcode) {
    case Opcode::kKernel:
      STEPCAST_TRY(LaunchKernel(operation, instruction, work, effects));
      break;
    case Opcode::kCopy:
      STEPCAST_TRY(LaunchCopy(operation, instruction, work, effects));
      break;
    case Opcode::kCollective:
      STEPCAST_TRY(LaunchCollective(operation, instruction, work, effects));
      break;
    default:
      STEPCAST_CHECK(false, "only kernels, copies and collectives are launched");
  }
  STEPCAST_TRY(mark(times.end));
  if (timed) pending_.push_back(times);
  return {};
}

Attempt<void> GpuDevice::LaunchKernel(OperationId operation, const Instruction& instruction,
                                      const Work& work, std::span<const Effect> effects) {
  const Kernel& kernel = program_.kernels[instruction.operand];
  const std::uint16_t stream = instruction.stream;
  const bool given = kernel.kind == KernelKind::kGiven && kernel.given > Time();
  std::uint64_t* stamp = effects.empty() ? nullptr : stamps_ + stream;
  if (given && stamp != nullptr) {
    STEPCAST_TRY(Check(StampTime(stamp, streams_[stream]), "starting a given kernel"));
  }
  if (work.product != kNone) STEPCAST_TRY(LaunchProduct(kernel, work, stream));
  if (work.attention != kNone) {
    const Attention& attention = plan_.attentions[work.attention];
    STEPCAST_TRY(
        Check(LaunchAttention(attention, Input(attention.type) + work.first_operand.count(),
                              outputs_[stream] + work.output.count(), streams_[stream]),
              fmt::format("starting '{}'", kernel.name)));
  }
  const Effect* first = program_.data_flow.effects.data();
  for (const Effect& effect : effects) {
    if (work.product_effect != kNone && &effect == first + work.product_effect) continue;
    STEPCAST_TRY(LaunchEffect(effect, operation, instruction));
  }
  if (given) {
    return Check(Spin(kernel.given, stamp, streams_[stream]), "starting a given kernel");
  }
  const bool moves =
      kernel.kind == KernelKind::kMemoryBound || kernel.kind == KernelKind::kOptimizer;
  if (!moves) return {};
  return Check(LaunchTraffic({.input = Input(plan_.traffic_type),
                              .input_size = plan_.inputs[static_cast<int>(plan_.traffic_type)],
                              .from = work.first_operand,
                              .read = work.read,
                              .output = outputs_[stream],
                              .output_size = plan_.outputs[stream],
                              .to = work.output,
                              .written = work.written},
                             streams_[stream]),
               fmt::format("starting '{}'", kernel.name));
}

Attempt<void> GpuDevice::LaunchProduct(const Kernel& kernel, const Work& work,
                                       std::uint16_t stream) {
  const Product& product = plan_.products[work.product];
  const std::byte* input = Input(product.input);
  // Sums of so many random numbers stay small: gradients move parameters, but not far.
  double scale = 1.0 / static_cast<double>(product.k);
  std::byte* result = outputs_[stream] + work.output.count();
  if (work.product_effect != kNone) {
    const Effect& effect = program_.data_flow.effects[work.product_effect];
    result = At(effect.target);
    scale *= effect.scale;
  }
  for (int time = 0; time < work.times; ++time) {
    auto done = products_->Run(
        work.product, static_cast<float>(scale), input + work.first_operand.count(),
        input + work.second_operand.count(), result, workspaces_[stream], streams_[stream]);
    if (!done) {
      Failure failure = std::move(done).error();
      failure.message = fmt::format("'{}': {}", kernel.name, failure.message);
      return tl::make_unexpected(std::move(failure));
    }
  }
  return {};
}

Attempt<void> GpuDevice::LaunchCopy(OperationId operation, const Instruction& instruction,
                                    const Work& work, std::span<const Effect> effects) {
  const program::CopyDirection direction = program_.copies[instruction.operand].direction;
  const std::uint16_t stream = instruction.stream;
  for (const Effect& effect : effects) STEPCAST_TRY(LaunchEffect(effect, operation, instruction));
  // What is not an effect: from an arena or the host, to one or the host, piece by piece.
  const bool from_host = direction == program::CopyDirection::kHostToDevice;
  const bool to_host = direction == program::CopyDirection::kDeviceToHost;
  const Bytes input_size = plan_.inputs[static_cast<int>(plan_.traffic_type)];
  Bytes piece = work.read;
  if (from_host || to_host) piece = std::min(piece, plan_.host);
  if (!from_host) piece = std::min(piece, input_size);
  if (!to_host) piece = std::min(piece, plan_.outputs[stream]);
  for (Bytes done; done < work.read; done += piece) {
    const Bytes size = std::min(piece, work.read - done);
    const bool whole = piece == work.read;  // then the plan's places have room
    const std::byte* source =
        from_host ? host_ : Input(plan_.traffic_type) + (whole ? work.first_operand.count() : 0);
    std::byte* target = to_host ? host_ : outputs_[stream] + (whole ? work.output.count() : 0);
    const cudaMemcpyKind kind = from_host ? cudaMemcpyHostToDevice
                                : to_host ? cudaMemcpyDeviceToHost
                                          : cudaMemcpyDeviceToDevice;
    STEPCAST_TRY(Check(cudaMemcpyAsync(target, source, static_cast<std::size_t>(size.count()), kind,
                                       streams_[stream]),
                       "starting a copy"));
  }
  return {};
}

Attempt<void> GpuDevice::WaitForCommunicator(Index communicator, std::uint16_t stream) {
  const CommunicatorOrder& order = orders_[communicator];
  const bool holds = order.mark == (capturing_ ? Mark::kCaptured : Mark::kRecorded);
  if (!holds || order.stream == stream) return {};
  return Check(cudaStreamWaitEvent(streams_[stream], order.done), "waiting for a communicator");
}

Attempt<void> GpuDevice::LaunchCollective(OperationId operation, const Instruction& instruction,
                                          const Work& work, std::span<const Effect> effects) {
  const program::Collective& collective = program_.collectives[instruction.operand];
  const std::uint16_t stream = instruction.stream;
  const auto ranks = static_cast<std::int64_t>(
      program_.groups[program_.communicators[collective.communicator].group].ranks.size());

  // Where the collective's own type is not the one that values are kept in.
  struct Staged {
    const Effect* effect = nullptr;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    bool target_is_staged = false;
    CollectiveParts parts;
  };
  std::vector<Staged> parts;
  Bytes staging = work.staging;
  const auto take = [&](std::int64_t elements) {
    std::byte* at = outputs_[stream] + staging.count();
    staging += AlignedInArena(BytesOf(elements, collective.data_type));
    return at;
  };
  // Other effects keep their place before or after the communication.
  const auto communicates = [](const Effect& effect) {
    return effect.kind == EffectKind::kCollective;
  };
  const auto first = std::find_if(effects.begin(), effects.end(), communicates);
  for (auto effect = effects.begin(); effect != first; ++effect) {
    STEPCAST_TRY(LaunchEffect(*effect, operation, instruction));
  }
  for (const Effect& effect : effects) {
    if (!communicates(effect)) continue;
    Staged part{.effect = &effect,
                .source = At(effect.source),
                .target = At(effect.target),
                .parts = PartsOf(collective.kind, effect.elements, ranks)};
    if (effect.source.type != collective.data_type) {
      std::byte* staged = take(part.parts.sent);
      STEPCAST_TRY(Check(LaunchMove({.target = staged,
                                     .source = part.source,
                                     .target_type = collective.data_type,
                                     .source_type = effect.source.type,
                                     .elements = part.parts.sent,
                                     .block = part.parts.sent},
                                    streams_[stream]),
                         "converting what is sent"));
      part.source = staged;
    }
    if (effect.target.type != collective.data_type) {
      part.target = take(part.parts.received);
      part.target_is_staged = true;
    }
    parts.push_back(part);
  }

  STEPCAST_TRY(communicators_->Begin());
  Attempt<void> started;
  for (const Staged& part : parts) {
    if (!started) break;
    started = communicators_->Part(collective, part.effect->elements, part.source, part.target,
                                   streams_[stream]);
  }
  if (started && work.read > Bytes(0)) {
    const std::int64_t elements = work.read.count() / SizeOf(collective.data_type) / ranks * ranks;
    started = communicators_->Part(collective, elements,
                                   Input(collective.data_type) + work.first_operand.count(),
                                   outputs_[stream] + work.output.count(), streams_[stream]);
  }
  // A group that was begun is ended in any case.
  Attempt<void> ended = communicators_->End();
  if (!started) return started;
  if (!ended) return ended;

  for (const Staged& part : parts) {
    if (!part.target_is_staged) continue;
    STEPCAST_TRY(Check(LaunchMove({.target = At(part.effect->target),
                                   .source = part.target,
                                   .target_type = part.effect->target.type,
                                   .source_type = collective.data_type,
                                   .elements = part.parts.received,
                                   .block = part.parts.received},
                                  streams_[stream]),
                       "converting what was received"));
  }
  for (auto effect = first; effect != effects.end(); ++effect) {
    if (!communicates(*effect)) STEPCAST_TRY(LaunchEffect(*effect, operation, instruction));
  }
  CommunicatorOrder& order = orders_[collective.communicator];
  STEPCAST_TRY(Check(cudaEventRecord(order.done, streams_[stream]), "recording an event"));
  order.stream = stream;
  order.mark = capturing_ ? Mark::kCaptured : Mark::kRecorded;
  return {};
}

Attempt<void> GpuDevice::LaunchEffect(const Effect& effect, OperationId operation,
                                      const Instruction& instruction) {
  cudaStream_t stream = streams_[instruction.stream];
  const StepSource step{.now = step_, .on_device = capturing_ ? step_values_ : nullptr};
  cudaError_t error = cudaSuccess;
  switch (effect.kind) {
    case EffectKind::kGradient:
      error = LaunchGradient({.target = At(effect.target),
                              .source = At(effect.source),
                              .target_type = effect.target.type,
                              .source_type = effect.source.type,
                              .elements = effect.elements,
                              .first_element = effect.first_element,
                              .add = effect.add,
                              .scale = static_cast<float>(effect.scale),
                              .rule = options_.gradients,
                              .rank = rank_,
                              .micro_batch = instruction.micro_batch},
                             step, stream);
      break;
    case EffectKind::kMove:
      error = LaunchMove({.target = At(effect.target),
                          .source = At(effect.source),
                          .target_type = effect.target.type,
                          .source_type = effect.source.type,
                          .elements = effect.elements,
                          .add = effect.add,
                          .scale = static_cast<float>(effect.scale),
                          .block = effect.block,
                          .target_stride = effect.target_stride,
                          .source_stride = effect.source_stride},
                         stream);
      break;
    case EffectKind::kUpdate:
      error = LaunchUpdate({.parameters = At(effect.target),
                            .gradients = At(effect.source),
                            .states = reinterpret_cast<float*>(At(effect.states)),
                            .parameter_type = effect.target.type,
                            .gradient_type = effect.source.type,
                            .elements = effect.elements,
                            .state_stride = effect.state_stride,
                            .adamw = program_.data_flow.adamw},
                           step, stream);
      break;
    case EffectKind::kSquares:
      error = LaunchSquares({.target = reinterpret_cast<float*>(At(effect.target)),
                             .source = At(effect.source),
                             .source_type = effect.source.type,
                             .elements = effect.elements,
                             .add = effect.add,
                             .scale = static_cast<float>(effect.scale)},
                            stream);
      break;
    case EffectKind::kClip:
      error = LaunchClip({.target = At(effect.target),
                          .squares = reinterpret_cast<const float*>(At(effect.source)),
                          .target_type = effect.target.type,
                          .elements = effect.elements,
                          .limit = static_cast<float>(effect.scale)},
                         stream);
      break;
    case EffectKind::kCollective:
      STEPCAST_CHECK(false, "only a collective communicates");
  }
  if (error == cudaSuccess) return {};
  return Check(error, fmt::format("starting instruction {} of step {}", operation.instruction,
                                  operation.step));
}

// Known numbers through every kind of collective that the program has.
Attempt<void> GpuDevice::CheckSums() {
  std::vector<std::tuple<CollectiveKind, Index, DataType, bool>> checked;
  for (const program::Collective& collective : program_.collectives) {
    const std::tuple key{collective.kind, collective.communicator, collective.data_type,
                         collective.average};
    if (std::find(checked.begin(), checked.end(), key) != checked.end()) continue;
    checked.push_back(key);
    STEPCAST_TRY(CheckCollective(program_, collective, rank_, *communicators_, streams_[0]));
  }
  return {};
}

Attempt<cudaEvent_t> GpuDevice::TakeTimingEvent() {
  if (timing_events_.empty()) return MakeEvent(cudaEventDefault);
  cudaEvent_t event = timing_events_.back();
  timing_events_.pop_back();
  return event;
}

Attempt<void> GpuDevice::RecordTiming(cudaEvent_t event, std::uint16_t stream) {
  // In a capture an ordinary record is an edge of the graph and not a point in time.
  return Check(capturing_
                   ? cudaEventRecordWithFlags(event, streams_[stream], cudaEventRecordExternal)
                   : cudaEventRecord(event, streams_[stream]),
               "recording a time");
}

// The device must be idle. The event's own time is known from the anchor before it.
Attempt<void> GpuDevice::SetAnchor() {
  const bool first = anchor_ == nullptr;
  Attempt<cudaEvent_t> next = TakeTimingEvent();
  if (!next) return tl::make_unexpected(std::move(next).error());
  // The event lies between two looks at the host's clock. Of three tries the narrowest counts;
  // without an anchor before, nothing tells how far tries lie apart.
  HostClock::duration narrowest = HostClock::duration::max();
  HostClock::time_point best_host;
  Time best_device, last_device;
  Attempt<void> recorded;
  for (int attempt = 0; attempt < (first ? 1 : 3) && recorded; ++attempt) {
    const HostClock::time_point before = HostClock::now();
    recorded = Check(cudaEventRecord(*next, streams_[0]), "setting the clock");
    while (recorded && Answered(cudaEventQuery(*next)) == cudaErrorNotReady) {
    }
    const HostClock::time_point after = HostClock::now();
    float passed = 0;
    if (recorded && !first) {
      recorded = Check(cudaEventElapsedTime(&passed, anchor_, *next), "setting the clock");
    }
    if (!recorded) break;
    // Later tries record the same event anew, so its time is that of the last one; the middle of
    // the narrowest interval tells how host and device differ.
    const Time at = anchor_time_ + FromMilliseconds(passed);
    if (after - before < narrowest) {
      narrowest = after - before;
      best_device = at;
      best_host = before + (after - before) / 2;
    }
    last_device = at;
  }
  if (!recorded) {
    timing_events_.push_back(*next);
    return recorded;
  }
  if (anchor_ != nullptr) timing_events_.push_back(anchor_);
  anchor_ = *next;
  anchor_host_ =
      best_host + std::chrono::nanoseconds((last_device - best_device).picoseconds() / 1000);
  anchor_time_ = last_device;
  return {};
}

Attempt<void> GpuDevice::Collect(const std::vector<Timed>& operations) {
  const char* doing = "reading times";
  for (const Timed& timed : operations) {
    float start = 0;
    float length = 0;
    float waited = 0;
    STEPCAST_TRY(Check(cudaEventElapsedTime(&start, anchor_, timed.start), doing));
    STEPCAST_TRY(Check(cudaEventElapsedTime(&length, timed.start, timed.end), doing));
    if (timed.ready != timed.start) {
      STEPCAST_TRY(Check(cudaEventElapsedTime(&waited, timed.ready, timed.start), doing));
    }
    const Time begin = anchor_time_ + FromMilliseconds(start);
    times_.push_back({.operation = timed.operation,
                      .ready = begin - FromMilliseconds(waited),
                      .start = begin,
                      .end = begin + FromMilliseconds(length)});
  }
  return {};
}

Attempt<void> GpuDevice::CollectInstance(GraphInstance& instance) {
  if (!instance.in_flight) return {};
  STEPCAST_TRY(WaitUntil([&] { return cudaEventQuery(instance.done); }, "waiting for a replay"));
  for (Timed& timed : instance.operations) timed.operation.step = instance.step;
  STEPCAST_TRY(Collect(instance.operations));
  if (progress_ != nullptr) {
    progress_->operations += instance.operations.size();
    progress_->step = instance.step;
  }
  instance.in_flight = false;
  return {};
}

Attempt<void> GpuDevice::Synchronise() {
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  STEPCAST_CHECK(!capturing_, "nothing runs while a step is captured");
  for (cudaStream_t stream : streams_) {
    STEPCAST_TRY(WaitUntil([&] { return cudaStreamQuery(stream); }, "waiting for the GPU"));
  }
  ReportProgress();
  STEPCAST_TRY(Collect(pending_));
  for (const Timed& timed : pending_) {
    timing_events_.push_back(timed.start);
    timing_events_.push_back(timed.end);
    if (timed.ready != timed.start) timing_events_.push_back(timed.ready);
  }
  pending_.clear();
  reported_ = 0;
  // The earlier replay first.
  std::vector<GraphInstance*> in_order;
  for (GraphInstance& instance : instances_) in_order.push_back(&instance);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return a->step < b->step; });
  for (GraphInstance* instance : in_order) STEPCAST_TRY(CollectInstance(*instance));
  return SetAnchor();
}

Attempt<std::vector<OperationTimes>> GpuDevice::TakeTimes() {
  std::vector<OperationTimes> times = std::exchange(times_, {});
  // They stand in order of issue.
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& a, const auto& b) { return a.end < b.end; });
  return times;
}

Time GpuDevice::Now() { return anchor_time_ + Since(anchor_host_); }

Attempt<void> GpuDevice::BeginCapture() {
  STEPCAST_CHECK(!capturing_ && instances_.empty(), "a step is captured once");
  // Times of what ran so far; the graph's own come after.
  STEPCAST_TRY(Synchronise());
  memory_->BeginCapture();
  // Relaxed: buffers that the cache does not have are allocated on the way.
  STEPCAST_TRY(Check(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeRelaxed),
                     "beginning to capture a step"));
  capturing_ = true;
  // The other streams join the capture by waiting for the first.
  auto fork = MakeEvent(cudaEventDisableTiming);
  if (!fork) return Failed(std::move(fork).error());
  Attempt<void> forked = Check(cudaEventRecord(*fork, streams_[0]), "beginning to capture a step");
  for (std::size_t s = 1; s < streams_.size() && forked; ++s) {
    forked = Check(cudaStreamWaitEvent(streams_[s], *fork), "beginning to capture a step");
  }
  cudaEventDestroy(*fork);
  if (!forked) return Failed(std::move(forked).error());
  return {};
}

Attempt<void> GpuDevice::EndCapture() {
  STEPCAST_CHECK(capturing_, "a capture was begun");
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
  if (auto ended = Check(cudaStreamEndCapture(streams_[0], &graph_), doing); !ended) {
    return Failed(std::move(ended).error());
  }
  // Marks in the graph mean nothing outside.
  for (Mark& mark : marks_) mark = Mark::kNone;
  for (CommunicatorOrder& order : orders_) order.mark = Mark::kNone;
  if (auto places = memory_->EndCapture(); !places) return Failed(std::move(places).error());

  // Two instances of the graph, which record their times in different events.
  std::vector<Timed> operations = std::exchange(pending_, {});
  for (const bool own_events : {false, true}) {
    auto instance = Instantiate(operations, own_events);
    if (!instance) return Failed(std::move(instance).error());
    instances_.push_back(std::move(*instance));
  }
  return {};
}

Attempt<GpuDevice::GraphInstance> GpuDevice::Instantiate(std::vector<Timed> operations,
                                                         bool own_events) {
  const char* doing = "making a graph of a step";
  GraphInstance instance;
  auto done = MakeEvent(cudaEventDisableTiming);
  if (!done) return tl::make_unexpected(std::move(done).error());
  instance.done = *done;
  STEPCAST_TRY(Check(cudaGraphInstantiate(&instance.exec, graph_, 0), doing));
  instance.operations = std::move(operations);
  if (!own_events) return instance;

  std::size_t count = 0;
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nullptr, &count), doing));
  std::vector<cudaGraphNode_t> nodes(count);
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nodes.data(), &count), doing));
  std::vector<std::pair<cudaEvent_t, cudaGraphNode_t>> records;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    STEPCAST_TRY(Check(cudaGraphNodeGetType(node, &type), doing));
    if (type != cudaGraphNodeTypeEventRecord) continue;
    cudaEvent_t event = nullptr;
    STEPCAST_TRY(Check(cudaGraphEventRecordNodeGetEvent(node, &event), doing));
    records.emplace_back(event, node);
  }
  std::sort(records.begin(), records.end());
  const auto replace = [&](cudaEvent_t& event) -> Attempt<void> {
    const auto found = std::lower_bound(records.begin(), records.end(), event,
                                        [](const auto& r, cudaEvent_t e) { return r.first < e; });
    STEPCAST_CHECK(found != records.end() && found->first == event,
                   "every time that a graph takes is a node of it");
    Attempt<cudaEvent_t> own = TakeTimingEvent();
    if (!own) return tl::make_unexpected(std::move(own).error());
    event = *own;
    return Check(cudaGraphExecEventRecordNodeSetEvent(instance.exec, found->second, event), doing);
  };
  for (Timed& timed : instance.operations) {
    const bool same = timed.ready == timed.start;
    STEPCAST_TRY(replace(timed.start));
    STEPCAST_TRY(replace(timed.end));
    if (same) {
      timed.ready = timed.start;
    } else {
      STEPCAST_TRY(replace(timed.ready));
    }
  }
  return instance;
}

Attempt<void> GpuDevice::Replay(std::uint32_t step) {
  STEPCAST_CHECK(!capturing_ && !instances_.empty(), "what is replayed was captured");
  STEPCAST_TRY(Check(cudaSetDevice(ordinal_), "choosing a GPU"));
  // The one that ran before the last.
  instances_.push_back(std::move(instances_.front()));
  instances_.pop_front();
  GraphInstance& instance = instances_.back();
  STEPCAST_TRY(CollectInstance(instance));
  const char* doing = "replaying a step";
  STEPCAST_TRY(Check(StoreStepValues(StepValuesOf(step), step_values_, streams_[0]), doing));
  STEPCAST_TRY(Check(cudaGraphLaunch(instance.exec, streams_[0]), doing));
  STEPCAST_TRY(Check(cudaEventRecord(instance.done, streams_[0]), doing));
  instance.in_flight = true;
  instance.step = step;
  return {};
}

MemoryUse GpuDevice::Memory() const {
  MemoryUse use{.peak = memory_->peak(), .reserved = memory_->reserved(), .outside = Bytes(0)};
  std::size_t free = 0;
  std::size_t total = 0;
  cudaSetDevice(ordinal_);
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    const Bytes used(static_cast<std::int64_t>(total - free));
    use.outside = std::max(Bytes(0), used - use.reserved - stand_in_bytes_);
  }
  return use;
}

Attempt<std::vector<float>> GpuDevice::Read(const program::Elements& from, std::int64_t count) {
  STEPCAST_TRY(Synchronise());
  if (memory_->at(from.buffer) == nullptr) {
    return tl::make_unexpected(
        Failure{fmt::format("buffer '{}' is not allocated", program_.NameOf(program_.buffers[from.buffer]))});
  }
  // Widening is exact, so the host does it.
  std::vector<std::byte> bytes(static_cast<std::size_t>(BytesOf(count, from.type).count()));
  STEPCAST_TRY(Check(cudaMemcpy(bytes.data(), At(from), bytes.size(), cudaMemcpyDeviceToHost),
                     "reading values"));
  return Widened(bytes, from.type);
}

}  // namespace stepcast::runtime::cuda
