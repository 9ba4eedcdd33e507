#include "src/runtime/cuda/gpu_device.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/kernel.h"
#include "src/program/description.h"
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
      step_(StepValuesOf(0)),
      ends_(program.streams.size()) {
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
  STEPCAST_TRY(Preload());
  // No rank may begin to communicate while another one loads.
  if (auto met = job.Barrier(); !met) return met;
  auto communicators = Communicators::Make(program_, job, cache);
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
  int cache = 0;
  STEPCAST_TRY(Check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, ordinal_),
                     "asking for the size of the cache"));
  least_input_ = AlignedInArena(Bytes(4 * std::int64_t{cache}));
  for (std::size_t type = 0; type < plan_.inputs.size(); ++type) {
    // A step's operands begin anywhere in the first `least_input_` of it.
    Bytes size = plan_.inputs[type];
    if (size > Bytes(0) && size < least_input_) size += least_input_;
    STEPCAST_TRY(allocate(inputs_, size));
    if (inputs_.back() == nullptr) continue;
    STEPCAST_TRY(Check(
        FillRandom(inputs_.back(), size, static_cast<DataType>(type), options_.seed, streams_[0]),
        "making random operands"));
  }
  std::vector<bool> sums(streams_.size(), false);
  for (std::size_t i = 0; i + 1 < program_.data_flow.first.size(); ++i) {
    for (Index e = program_.data_flow.first[i]; e < program_.data_flow.first[i + 1]; ++e) {
      const bool squares = program_.data_flow.effects[e].kind == EffectKind::kSquares;
      if (squares) sums[program_.step[i].stream] = true;
    }
  }
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    STEPCAST_TRY(allocate(outputs_, plan_.outputs[s]));
    STEPCAST_TRY(allocate(workspaces_, plan_.multiplies[s] ? Products::kWorkspace : Bytes(0)));
    auto partial_sums =
        AllocateStandIn(sums[s] ? Bytes(kPartialSums * sizeof(double)) : Bytes(0), stand_in_bytes_);
    if (!partial_sums) return tl::make_unexpected(std::move(partial_sums).error());
    partial_sums_.push_back(reinterpret_cast<double*>(*partial_sums));
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

// A step's window of the operands.
const std::byte* GpuDevice::Input(DataType type) const {
  const auto t = static_cast<std::size_t>(type);
  if (plan_.inputs[t] >= least_input_) return inputs_[t];
  return inputs_[t] + std::int64_t{step_.step} * plan_.inputs[t].count() % least_input_.count();
}

// Launches what the program will launch, on operands that do not matter.
Attempt<void> GpuDevice::Preload() {
  const char* doing = "loading kernels";
  Bytes largest;
  std::size_t multiplies = 0;
  for (const Product& product : plan_.products) largest = std::max(largest, Output(product));
  for (const Attention& core : plan_.attentions) largest = std::max(largest, OutputOf(core));
  while (multiplies + 1 < streams_.size() && !plan_.multiplies[multiplies]) ++multiplies;
  Bytes no_stand_in;
  auto scratch = AllocateStandIn(largest, no_stand_in);
  if (!scratch) return tl::make_unexpected(std::move(scratch).error());
  const auto launch = [&]() -> Attempt<void> {
    for (std::size_t p = 0; p < plan_.products.size(); ++p) {
      const std::byte* input = Input(plan_.products[p].input);
      STEPCAST_TRY(products_->Run(static_cast<Index>(p), 0, input, input, *scratch,
                                  workspaces_[multiplies], streams_[multiplies]));
    }
    for (const Attention& core : plan_.attentions) {
      STEPCAST_TRY(
          Check(LaunchAttention(core, Input(core.type), *scratch, streams_[multiplies]), doing));
    }
    STEPCAST_TRY(PreloadEffects());
    STEPCAST_TRY(Check(StampTime(stamps_, streams_[0]), doing));
    STEPCAST_TRY(Check(Spin(Time(), nullptr, streams_[0]), doing));
    STEPCAST_TRY(Check(StoreStepValues(step_, step_values_, streams_[0]), doing));
    if (const std::byte* input = Input(plan_.traffic_type); input != nullptr) {
      // Reads, and writes nothing.
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
  cudaFree(*scratch);
  return launched;
}

Attempt<void> GpuDevice::PreloadEffects() {
  const char* doing = "loading kernels";
  const program::DataFlow& flow = program_.data_flow;
  for (const program::StatePart& part : flow.state) {
    STEPCAST_TRY(Check(LaunchInitialValues(nullptr, part.place.type, 0, 0, 0, streams_[0]), doing));
  }
  std::vector<std::tuple<EffectKind, DataType, DataType>> launched;
  const auto is_new = [&](EffectKind kind, DataType target, DataType source) {
    const std::tuple key{kind, target, source};
    if (std::find(launched.begin(), launched.end(), key) != launched.end()) return false;
    launched.push_back(key);
    return true;
  };
  const auto move = [&](DataType target, DataType source) {
    if (target == source || !is_new(EffectKind::kMove, target, source)) return cudaSuccess;
    const MoveWork nothing;
    return LaunchMoves({&nothing, 1}, {target, source}, streams_[0]);
  };
  for (std::size_t i = 0; i + 1 < flow.first.size(); ++i) {
    const Instruction& instruction = program_.step[i];
    for (Index e = flow.first[i]; e < flow.first[i + 1]; ++e) {
      const Effect& effect = flow.effects[e];
      if (effect.kind == EffectKind::kCollective) {
        const DataType sent = program_.collectives[instruction.operand].data_type;
        STEPCAST_TRY(Check(move(sent, effect.source.type), doing));
        STEPCAST_TRY(Check(move(effect.target.type, sent), doing));
        continue;
      }
      if (!is_new(effect.kind, effect.target.type, effect.source.type)) continue;
      // Without elements nothing is read or written, but the sum and the norm: the stamps are
      // numbers as good as any.
      const TypePair types{effect.target.type, effect.source.type};
      const StepSource step{.now = step_};
      auto* const number = reinterpret_cast<float*>(stamps_);
      cudaError_t error = cudaSuccess;
      switch (effect.kind) {
        case EffectKind::kGradient: {
          const GradientWork nothing;
          error = LaunchGradients({&nothing, 1}, types, {.rule = options_.gradients}, step,
                                  streams_[0]);
          break;
        }
        case EffectKind::kMove: {
          const MoveWork nothing;
          error = LaunchMoves({&nothing, 1}, types, streams_[0]);
          break;
        }
        case EffectKind::kUpdate: {
          const UpdateWork nothing;
          error = LaunchUpdates({&nothing, 1}, types, flow.adamw, step, streams_[0]);
          break;
        }
        case EffectKind::kSquares: {
          const SquaresWork nothing{.target = number};
          error = LaunchSquares({&nothing, 1}, types.source, partial_sums_[instruction.stream],
                                streams_[0]);
          break;
        }
        case EffectKind::kClip: {
          const ClipWork nothing{.squares = number};
          error = LaunchClips({&nothing, 1}, types.target, streams_[0]);
          break;
        }
        case EffectKind::kMix: {
          const MixWork nothing{.target = reinterpret_cast<std::uint32_t*>(stamps_)};
          error = LaunchMixes({&nothing, 1}, {.rule = options_.gradients}, step, streams_[0]);
          break;
        }
        case EffectKind::kCollective:
          break;
      }
      STEPCAST_TRY(Check(error, doing));
    }
  }
  return {};
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
  }
  for (cudaEvent_t event : timing_events_) cudaEventDestroy(event);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const CommunicatorOrder& order : orders_) {
    if (order.done != nullptr) cudaEventDestroy(order.done);
  }
  for (const auto* list : {&inputs_, &outputs_, &workspaces_}) {
    for (std::byte* at : *list) cudaFree(at);
  }
  for (double* sums : partial_sums_) cudaFree(sums);
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
    if (auto collected = CollectDone(); !collected) return collected;
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

Attempt<void> GpuDevice::CollectDone() {
  looked_ = HostClock::now();
  if (capturing_) return {};
  while (!pending_.empty()) {
    const Timed& timed = pending_.front();
    const cudaError_t state = Answered(cudaEventQuery(timed.end));
    if (state == cudaErrorNotReady) break;
    if (state != cudaSuccess) return Failed(Check(state, "looking for what is done").error());
    STEPCAST_TRY(Collect(timed));
    free_timing_events_.push_back(timed.start);
    if (timed.ready != timed.start) free_timing_events_.push_back(timed.ready);
    if (!timed.lent) {
      free_timing_events_.push_back(timed.end);
      // Not to be lent any more.
      for (StreamEnd& end : ends_) {
        if (end.event == timed.end) end.event = nullptr;
      }
    }
    pending_.pop_front();
    ++collected_;
    if (progress_ != nullptr) ++progress_->operations;
  }
  if (progress_ == nullptr || pending_.empty()) return {};
  progress_->step = pending_.front().operation.step;
  progress_->instruction = pending_.front().operation.instruction;
  return {};
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
    ends_[stream] = {};
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
  ends_[stream] = {};
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
  // Now and then, for those who watch.
  constexpr auto kOften = std::chrono::milliseconds(10);
  if (progress_ != nullptr && HostClock::now() - looked_ > kOften) return CollectDone();
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
  if (timed) {
    Attempt<cudaEvent_t> begin = Beginning(stream);
    if (!begin) return tl::make_unexpected(std::move(begin).error());
    times.ready = times.start = *begin;
  }
  const Index communicator = program::CommunicatorOf(program_, instruction);
  if (communicator != program::kNone) {
    if (MustWaitFor(communicator, stream)) {
      STEPCAST_TRY(Check(cudaStreamWaitEvent(streams_[stream], orders_[communicator].done),
                         "waiting for a communicator"));
      if (timed) {
        Attempt<cudaEvent_t> start = TakeTimingEvent();
        if (!start) return tl::make_unexpected(std::move(start).error());
        times.start = *start;
        STEPCAST_TRY(RecordTiming(times.start, stream));
      }
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
      STEPCAST_CHECK(false, "only kernels, copies, collectives and exchanges are launched");
  }
  if (!timed) {
    ends_[stream] = {};
    return {};
  }
  Attempt<cudaEvent_t> end = TakeTimingEvent();
  if (!end) return tl::make_unexpected(std::move(end).error());
  times.end = *end;
  STEPCAST_TRY(RecordTiming(times.end, stream));
  ends_[stream] = {times.end, collected_ + pending_.size()};
  pending_.push_back(times);
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
  STEPCAST_TRY(LaunchBatches(work.first_batch, work.last_batch, operation, instruction));
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
                                    const Work& work) {
  const program::CopyDirection direction = program_.copies[instruction.operand].direction;
  const std::uint16_t stream = instruction.stream;
  STEPCAST_TRY(LaunchBatches(work.first_batch, work.last_batch, operation, instruction));
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

  // Where the collective's own type is not the one that values are kept in.
  struct Staged {
    std::int64_t elements = 0;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
  };
  std::vector<Staged> parts;
  Bytes staging = work.staging;
  const auto take = [&](std::int64_t elements) {
    std::byte* at = outputs_[stream] + staging.count();
    staging += AlignedInArena(BytesOf(elements, collective.data_type));
    return at;
  };
  // Other effects keep their place before or after the communication.
  STEPCAST_TRY(LaunchBatches(work.first_batch, work.batches_behind, operation, instruction));
  // What is converted on the way is converted in one launch for each pair of types.
  std::vector<std::pair<TypePair, std::vector<MoveWork>>> sent, received;
  const auto convert = [](auto& list, TypePair types, void* target, const void* source,
                          std::int64_t elements) {
    auto found = std::find_if(list.begin(), list.end(),
                              [&](const auto& entry) { return entry.first == types; });
    if (found == list.end()) found = list.insert(list.end(), {types, {}});
    found->second.push_back(
        {.target = target, .source = source, .elements = elements, .block = elements});
  };
  for (const Effect& effect : effects) {
    if (effect.kind != EffectKind::kCollective) continue;
    Staged part{
        .elements = effect.elements, .source = At(effect.source), .target = At(effect.target)};
    const CollectiveParts counts = PartsOf(collective.kind, effect.elements, ranks);
    if (effect.source.type != collective.data_type) {
      std::byte* staged = take(counts.sent);
      convert(sent, {collective.data_type, effect.source.type}, staged, part.source, counts.sent);
      part.source = staged;
    }
    if (effect.target.type != collective.data_type) {
      std::byte* staged = take(counts.received);
      convert(received, {effect.target.type, collective.data_type}, part.target, staged,
              counts.received);
      part.target = staged;
    }
    parts.push_back(part);
  }
  for (const auto& [types, works] : sent) {
    STEPCAST_TRY(Check(LaunchMoves(works, types, streams_[stream]), "converting what is sent"));
  }

  STEPCAST_TRY(communicators_->Begin());
  Attempt<void> started;
  for (const Staged& part : parts) {
    if (!started) break;
    started =
        communicators_->Part(collective, part.elements, part.source, part.target, streams_[stream]);
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

  for (const auto& [types, works] : received) {
    STEPCAST_TRY(
        Check(LaunchMoves(works, types, streams_[stream]), "converting what was received"));
  }
  STEPCAST_TRY(LaunchBatches(work.batches_behind, work.last_batch, operation, instruction));
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
        message.bytes, At({.buffer = use.buffer, .offset = use.offset}),
        streams_[instruction.stream]);
  }
  // A group that was begun is ended in any case.
  Attempt<void> ended = communicators_->End();
  if (!started) return started;
  if (!ended) return ended;
  return EndTurn(exchange.communicator, instruction.stream);
}

Attempt<void> GpuDevice::LaunchBatches(Index first, Index last, OperationId operation,
                                       const Instruction& instruction) {
  const std::span<const Effect> effects = program_.data_flow.effects;
  for (Index b = first; b < last; ++b) {
    const EffectBatch& batch = plan_.batches[b];
    const cudaError_t error = LaunchBatch(effects.subspan(batch.first, batch.count),
                                          instruction.micro_batch, instruction.stream);
    if (error == cudaSuccess) continue;
    return Check(error, fmt::format("starting instruction {} of step {}", operation.instruction,
                                    operation.step));
  }
  return {};
}

cudaError_t GpuDevice::LaunchBatch(std::span<const Effect> effects, int micro_batch,
                                   std::uint16_t stream) {
  const StepSource step{.now = step_, .on_device = capturing_ ? step_values_ : nullptr};
  const TypePair types{effects.front().target.type, effects.front().source.type};
  const auto works_of = [&](const auto& work_of) {
    std::vector<decltype(work_of(effects.front()))> works;
    works.reserve(effects.size());
    for (const Effect& effect : effects) works.push_back(work_of(effect));
    return works;
  };
  switch (effects.front().kind) {
    case EffectKind::kGradient:
      return LaunchGradients(
          works_of([&](const Effect& effect) {
            return GradientWork{.target = At(effect.target),
                                .source = At(effect.source),
                                .elements = effect.elements,
                                .first_element = effect.first_element,
                                .scale = static_cast<float>(effect.scale),
                                .add = effect.add,
                                .seed = reinterpret_cast<const std::uint32_t*>(At(effect.states))};
          }),
          types, {.rule = options_.gradients, .rank = rank_, .micro_batch = micro_batch}, step,
          streams_[stream]);
    case EffectKind::kMove:
      return LaunchMoves(works_of([&](const Effect& effect) {
                           return MoveWork{.target = At(effect.target),
                                           .source = At(effect.source),
                                           .elements = effect.elements,
                                           .block = effect.block,
                                           .target_stride = effect.target_stride,
                                           .source_stride = effect.source_stride,
                                           .scale = static_cast<float>(effect.scale),
                                           .add = effect.add};
                         }),
                         types, streams_[stream]);
    case EffectKind::kUpdate:
      return LaunchUpdates(works_of([&](const Effect& effect) {
                             return UpdateWork{
                                 .parameters = At(effect.target),
                                 .gradients = At(effect.source),
                                 .states = reinterpret_cast<float*>(At(effect.states)),
                                 .elements = effect.elements,
                                 .state_stride = effect.state_stride};
                           }),
                           types, program_.data_flow.adamw, step, streams_[stream]);
    case EffectKind::kSquares:
      return LaunchSquares(works_of([&](const Effect& effect) {
                             return SquaresWork{
                                 .target = reinterpret_cast<float*>(At(effect.target)),
                                 .source = At(effect.source),
                                 .elements = effect.elements,
                                 .scale = static_cast<float>(effect.scale),
                                 .add = effect.add};
                           }),
                           types.source, partial_sums_[stream], streams_[stream]);
    case EffectKind::kClip:
      return LaunchClips(works_of([&](const Effect& effect) {
                           return ClipWork{
                               .target = At(effect.target),
                               .squares = reinterpret_cast<const float*>(At(effect.source)),
                               .elements = effect.elements,
                               .limit = static_cast<float>(effect.scale)};
                         }),
                         types.target, streams_[stream]);
    case EffectKind::kMix:
      return LaunchMixes(works_of([&](const Effect& effect) {
                           return MixWork{
                               .target = reinterpret_cast<std::uint32_t*>(At(effect.target)),
                               .source = reinterpret_cast<const std::uint32_t*>(At(effect.source)),
                               .also = reinterpret_cast<const std::uint32_t*>(At(effect.states)),
                               .salt = effect.first_element};
                         }),
                         {.rule = options_.gradients, .rank = rank_, .micro_batch = micro_batch},
                         step, streams_[stream]);
    case EffectKind::kCollective:
      break;
  }
  STEPCAST_CHECK(false, "only a collective communicates");
  return cudaErrorInvalidValue;
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
  // Those of what is done, or, if nothing is, new ones: some at a time, so that the device is asked
  // seldom.
  if (free_timing_events_.empty()) STEPCAST_TRY(CollectDone());
  constexpr int kSome = 64;
  for (int i = 0; free_timing_events_.empty() || (0 < i && i < kSome); ++i) {
    auto made = MakeEvent(cudaEventDefault);
    if (!made) return made;
    timing_events_.push_back(*made);
    free_timing_events_.push_back(*made);
  }
  cudaEvent_t event = free_timing_events_.back();
  free_timing_events_.pop_back();
  return event;
}

Attempt<cudaEvent_t> GpuDevice::Beginning(std::uint16_t stream) {
  if (cudaEvent_t before = ends_[stream].event; before != nullptr) {
    // Of a stream that is idle by now it would tell when it became so. In a graph an operation
    // follows the one before.
    const cudaError_t state = capturing_ ? cudaErrorNotReady : Answered(cudaEventQuery(before));
    if (state == cudaErrorNotReady) {
      pending_[ends_[stream].operation - collected_].lent = true;
      return before;
    }
    ends_[stream] = {};
  }
  Attempt<cudaEvent_t> event = TakeTimingEvent();
  if (!event) return event;
  STEPCAST_TRY(RecordTiming(*event, stream));
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
    free_timing_events_.push_back(*next);
    return recorded;
  }
  if (anchor_ != nullptr) free_timing_events_.push_back(anchor_);
  anchor_ = *next;
  anchor_host_ =
      best_host + std::chrono::nanoseconds((last_device - best_device).picoseconds() / 1000);
  anchor_time_ = last_device;
  return {};
}

Attempt<void> GpuDevice::Collect(const Timed& timed) {
  const char* doing = "reading times";
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
  return {};
}

Attempt<void> GpuDevice::CollectInstance(GraphInstance& instance) {
  if (!instance.in_flight) return {};
  STEPCAST_TRY(WaitUntil([&] { return cudaEventQuery(instance.done); }, "waiting for a replay"));
  for (Timed& timed : instance.operations) {
    timed.operation.step = instance.step;
    STEPCAST_TRY(Collect(timed));
  }
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
  STEPCAST_TRY(CollectDone());
  STEPCAST_CHECK(pending_.empty(), "all that was issued is done");
  ends_.assign(ends_.size(), {});
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
  const std::vector<Timed> operations(pending_.begin(), pending_.end());
  pending_.clear();
  ends_.assign(ends_.size(), {});
  for (const bool own_events : {false, true}) {
    // Kept before it is made, so that what is half made is freed, too.
    GraphInstance& instance = instances_.emplace_back();
    if (auto made = Instantiate(instance, operations, own_events); !made) {
      return Failed(std::move(made).error());
    }
  }
  return {};
}

Attempt<void> GpuDevice::Instantiate(GraphInstance& instance, const std::vector<Timed>& operations,
                                     bool own_events) {
  const char* doing = "making a graph of a step";
  auto done = MakeEvent(cudaEventDisableTiming);
  if (!done) return tl::make_unexpected(std::move(done).error());
  instance.done = *done;
  STEPCAST_TRY(Check(cudaGraphInstantiate(&instance.exec, graph_, 0), doing));
  instance.operations = operations;
  if (!own_events) return {};

  std::size_t count = 0;
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nullptr, &count), doing));
  std::vector<cudaGraphNode_t> nodes(count);
  STEPCAST_TRY(Check(cudaGraphGetNodes(graph_, nodes.data(), &count), doing));
  std::map<cudaEvent_t, cudaEvent_t> own;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    STEPCAST_TRY(Check(cudaGraphNodeGetType(node, &type), doing));
    if (type != cudaGraphNodeTypeEventRecord) continue;
    cudaEvent_t event = nullptr;
    STEPCAST_TRY(Check(cudaGraphEventRecordNodeGetEvent(node, &event), doing));
    Attempt<cudaEvent_t> taken = TakeTimingEvent();
    if (!taken) return tl::make_unexpected(std::move(taken).error());
    own[event] = *taken;
    STEPCAST_TRY(Check(cudaGraphExecEventRecordNodeSetEvent(instance.exec, node, *taken), doing));
  }
  for (Timed& timed : instance.operations) {
    for (cudaEvent_t* event : {&timed.ready, &timed.start, &timed.end}) {
      const auto found = own.find(*event);
      STEPCAST_CHECK(found != own.end(), "every time that a graph takes is a node of it");
      *event = found->second;
    }
  }
  return {};
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
    return tl::make_unexpected(Failure{fmt::format(
        "buffer '{}' is not allocated", program_.NameOf(program_.buffers[from.buffer]))});
  }
  // Widening is exact, so the host does it.
  std::vector<std::byte> bytes(static_cast<std::size_t>(BytesOf(count, from.type).count()));
  STEPCAST_TRY(Check(cudaMemcpy(bytes.data(), At(from), bytes.size(), cudaMemcpyDeviceToHost),
                     "reading values"));
  return Widened(bytes, from.type);
}

}  // namespace stepcast::runtime::cuda
