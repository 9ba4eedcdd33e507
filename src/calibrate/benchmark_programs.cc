#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "src/base/check.h"
#include "src/calibrate/benchmark.h"

namespace stepcast::calibrate {
namespace {

using program::BufferUse;
using program::Effect;
using program::EffectKind;
using program::Elements;
using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;

constexpr std::int64_t kFp32Size = 4;
// Parameters of an optimizer, enough for several updates.
constexpr std::int64_t kSeveral = std::int64_t{4} << 20;
constexpr std::uint16_t kCompute = 0;
constexpr std::uint16_t kCommunication = 1;
// Pause between collectives on the compute stream. It is long enough to empty the queues and token
// buckets of links, which are mostly empty in a step.
constexpr Time kPause = Milliseconds(1);

// Builds a program instruction by instruction, with the effects of each.
class Author {
 public:
  explicit Author(int streams, int rank = 0) {
    program_.rank = rank;
    program_.streams.push_back({"compute"});
    if (streams > 1) program_.streams.push_back({"communication"});
  }

  // A buffer that lives from the prologue on, with nonzero initial values.
  Index MakeBuffer(std::string_view name, std::int64_t elements, std::uint16_t stream) {
    const auto buffer = static_cast<Index>(program_.buffers.size());
    program_.buffers.push_back({{program_.texts.Add(name)},
                                Bytes(elements * kFp32Size),
                                program::Category::kCommunication,
                                Bytes()});
    Instruction allocate;
    allocate.opcode = Opcode::kAllocate;
    allocate.stream = stream;
    allocate.operand = buffer;
    program_.prologue.push_back(allocate);
    program_.data_flow.state.push_back({.role = program::StateRole::kParameter,
                                        .place = {buffer, Bytes(), DataType::kFp32},
                                        .first_element = next_element_,
                                        .elements = elements});
    next_element_ += elements;
    return buffer;
  }

  Index MakeCommunicator(const std::vector<int>& group) {
    program_.groups.push_back({"measured", group});
    program_.communicators.push_back({"measured", 0});
    return 0;
  }

  Index MakeEvent(std::string_view name) {
    program_.events.push_back({{program_.texts.Add(name)}});
    return static_cast<Index>(program_.events.size() - 1);
  }

  Index MakeKernel(Kernel kernel) {
    program_.kernels.push_back(std::move(kernel));
    return static_cast<Index>(program_.kernels.size() - 1);
  }

  Index MakePause(Time duration) {
    return MakeKernel({.name = "pause", .kind = KernelKind::kGiven, .given = duration});
  }

  // Returns the instruction's index in the step.
  Index Add(Opcode opcode, std::uint16_t stream, Index operand, std::vector<BufferUse> uses = {},
            const Effect* effect = nullptr) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.stream = stream;
    instruction.operand = operand;
    instruction.first_use = static_cast<Index>(program_.uses.size());
    instruction.use_count = static_cast<Index>(uses.size());
    program_.uses.insert(program_.uses.end(), uses.begin(), uses.end());
    first_effects_.push_back(static_cast<Index>(program_.data_flow.effects.size()));
    if (effect != nullptr) program_.data_flow.effects.push_back(*effect);
    program_.step.push_back(instruction);
    return static_cast<Index>(program_.step.size() - 1);
  }

  // Makes one stream wait for another.
  void Then(std::uint16_t first, std::uint16_t second, Index event) {
    Add(Opcode::kRecordEvent, first, event);
    Add(Opcode::kWaitEvent, second, event);
  }

  // The buffers that a collective of one kind reads and writes.
  struct Operands {
    Index source = kNone;
    Index target = kNone;
  };

  // Collectives are in place, as in NCCL, except all-to-alls and messages.
  Operands MakeOperands(std::string_view name, CollectiveKind kind, Bytes largest) {
    const std::int64_t elements = largest.count() / kFp32Size;
    Operands operands;
    operands.source = MakeBuffer(name, elements, kCommunication);
    const bool apart = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
    operands.target = apart ? MakeBuffer("received", elements, kCommunication) : operands.source;
    return operands;
  }

  Index Communicate(Index collective, const Operands& operands, std::int64_t rank_in_group) {
    const program::Collective& spec = program_.collectives[collective];
    const auto ranks = static_cast<std::int64_t>(program_.groups[0].ranks.size());
    const std::int64_t elements = spec.bytes.count() / kFp32Size;
    const Bytes part(elements / ranks * kFp32Size);
    Effect effect;
    effect.kind = EffectKind::kCollective;
    effect.elements = elements;
    effect.target = {operands.target, Bytes(), DataType::kFp32};
    effect.source = {operands.source, Bytes(), DataType::kFp32};
    if (spec.kind == CollectiveKind::kReduceScatter) effect.target.offset = rank_in_group * part;
    if (spec.kind == CollectiveKind::kAllGather) effect.source.offset = rank_in_group * part;
    std::vector<BufferUse> uses = {{operands.target, true, Bytes(), spec.bytes}};
    if (operands.source != operands.target) {
      // The rank's own part, the last one, is not sent.
      uses[0].size -= part;
      uses.push_back({operands.source, false, Bytes(), spec.bytes - part});
    }
    return Add(Opcode::kCollective, kCommunication, collective, std::move(uses), &effect);
  }

  Index MakeCollective(CollectiveKind kind, Bytes bytes) {
    program_.collectives.push_back(
        {.kind = kind,
         .communicator = 0,
         .bytes = bytes,
         .data_type = DataType::kFp32,
         .average = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter});
    return static_cast<Index>(program_.collectives.size() - 1);
  }

  // Sends to the next rank of the group and receives from the previous one, at once.
  Index PassOn(Bytes bytes, const Operands& operands) {
    program_.exchanges.push_back({.communicator = 0,
                                  .data_type = DataType::kFp32,
                                  .peers = program::PeerNaming::kDistance,
                                  .messages = {{program::MessageDirection::kSend, 1, bytes},
                                               {program::MessageDirection::kReceive, -1, bytes}}});
    return Add(Opcode::kExchange, kCommunication, static_cast<Index>(program_.exchanges.size() - 1),
               {{operands.source, false, Bytes(), bytes}, {operands.target, true, Bytes(), bytes}});
  }

  program::Program Take() {
    first_effects_.push_back(static_cast<Index>(program_.data_flow.effects.size()));
    program_.data_flow.first = std::move(first_effects_);
    return std::move(program_);
  }

 private:
  program::Program program_;
  std::vector<Index> first_effects_;
  std::int64_t next_element_ = 0;
};

// A first operation that occupies the stream while the host issues the others. No other operation
// then waits for its issue, as in a step whose host runs ahead.
Index RunAhead(Author& author, std::size_t operations) {
  constexpr Time kEach = Microseconds(10);
  return author.MakePause(kEach * static_cast<std::int64_t>(operations + 20));
}

// Adds `1 + repetitions` operations with an opcode and operand.
Probe Chain(Author& author, Opcode opcode, std::uint16_t stream, Index operand, int repetitions) {
  Probe probe;
  for (int i = 0; i <= repetitions; ++i) {
    probe.operations.push_back(author.Add(opcode, stream, operand));
  }
  return probe;
}

std::int64_t PositionIn(const std::vector<int>& group, int rank) {
  const auto found = std::find(group.begin(), group.end(), rank);
  STEPCAST_CHECK(found != group.end(), "a rank must belong to the group that it measures");
  return found - group.begin();
}

}  // namespace

Kernel Product(DataType type, std::int64_t m, std::int64_t n, std::int64_t k,
               ProductLayout layout) {
  const DataType result = layout == ProductLayout::kWeightGradient ? DataType::kFp32 : type;
  return {.name = "product",
          .kind = KernelKind::kGemm,
          .data_type = type,
          .m = m,
          .n = n,
          .k = k,
          .layout = layout,
          .flops = 2 * m * n * k,
          .model_flops = 2 * m * n * k,
          .read = BytesOf(m * k + k * n, type),
          .written = BytesOf(m * n, result)};
}

Kernel MemoryKernel(Bytes bytes) {
  const Bytes half(bytes.count() / 2);
  return {.name = "memory",
          .kind = KernelKind::kMemoryBound,
          .data_type = DataType::kFp32,
          .read = half,
          .written = bytes - half};
}

Kernel AttentionKernel(KernelKind kind, DataType type, std::int64_t heads, std::int64_t sequence,
                       std::int64_t head_size) {
  const bool forward = kind == KernelKind::kAttention;
  const std::int64_t rows = sequence * heads;
  const Bytes operand = BytesOf(rows * head_size, type);
  const Bytes row_numbers(4 * rows);
  const Bytes accumulator(4 * rows * head_size);
  // Two products of s x s per head, half of each masked; five in the backward.
  const std::int64_t product = sequence * rows * head_size;
  return {.name = forward ? "attention" : "attention gradient",
          .kind = kind,
          .data_type = type,
          .batch = heads,
          .m = sequence,
          .n = sequence,
          .k = head_size,
          .key_heads = heads,
          .flops = (forward ? 2 : 5) * product,
          .model_flops = (forward ? 4 : 8) * product,
          .read = forward ? 3 * operand : 5 * operand + 2 * row_numbers + accumulator,
          .written = forward ? operand + row_numbers : 3 * operand + accumulator};
}

Benchmark KernelBenchmark(const std::vector<Kernel>& kernels, int repetitions) {
  Author author(1);
  Benchmark benchmark;
  author.Add(Opcode::kKernel, kCompute,
             RunAhead(author, kernels.size() * static_cast<std::size_t>(1 + repetitions)));
  for (const Kernel& kernel : kernels) {
    benchmark.probes.push_back(
        Chain(author, Opcode::kKernel, kCompute, author.MakeKernel(kernel), repetitions));
  }
  benchmark.program = author.Take();
  return benchmark;
}

Benchmark OptimizerBenchmark(const std::vector<std::int64_t>& elements, Bytes cache,
                             int repetitions) {
  Author author(1);
  Benchmark benchmark;
  const std::int64_t largest = *std::max_element(elements.begin(), elements.end());
  // Parameters, gradients and two moments, which updates walk through. The arrays are long enough
  // that no element is still in the cache when it is used again.
  const std::int64_t cold = 4 * cache.count() / (4 * kFp32Size);
  const std::int64_t room = std::max({largest, cold, std::min(kSeveral, 8 * largest)});
  const Index parameters = author.MakeBuffer("parameters", room, kCompute);
  const Index gradients = author.MakeBuffer("gradients", room, kCompute);
  const Index moments = author.MakeBuffer("moments", 2 * room, kCompute);
  author.Add(Opcode::kKernel, kCompute,
             RunAhead(author, elements.size() * static_cast<std::size_t>(1 + repetitions)));
  std::int64_t next = 0;
  for (const std::int64_t count : elements) {
    const Index kernel = author.MakeKernel({.name = "adamw",
                                            .kind = KernelKind::kOptimizer,
                                            .data_type = DataType::kFp32,
                                            .read = Bytes(16 * count),
                                            .written = Bytes(12 * count)});
    Probe probe;
    for (int i = 0; i <= repetitions; ++i) {
      if (next + count > room) next = 0;
      const Bytes offset(next * kFp32Size);
      const Bytes size(count * kFp32Size);
      next += count;
      Effect effect;
      effect.kind = EffectKind::kUpdate;
      effect.target = {parameters, offset, DataType::kFp32};
      effect.source = {gradients, offset, DataType::kFp32};
      effect.states = {moments, offset, DataType::kFp32};
      effect.state_stride = room;
      effect.elements = count;
      probe.operations.push_back(
          author.Add(Opcode::kKernel, kCompute, kernel,
                     {{parameters, true, offset, size},
                      {gradients, false, offset, size},
                      {moments, true, offset, size},
                      {moments, true, offset + Bytes(room * kFp32Size), size}},
                     &effect));
    }
    benchmark.probes.push_back(std::move(probe));
  }
  benchmark.program = author.Take();
  return benchmark;
}

Benchmark CopyBenchmark(program::CopyDirection direction, const std::vector<Bytes>& sizes,
                        int repetitions) {
  Author author(1);
  Benchmark benchmark;
  author.Add(Opcode::kKernel, kCompute,
             RunAhead(author, sizes.size() * static_cast<std::size_t>(1 + repetitions)));
  std::vector<program::Copy> copies;
  for (const Bytes size : sizes) {
    benchmark.probes.push_back(
        Chain(author, Opcode::kCopy, kCompute, static_cast<Index>(copies.size()), repetitions));
    copies.push_back({direction, size});
  }
  benchmark.program = author.Take();
  benchmark.program.copies = std::move(copies);
  return benchmark;
}

Benchmark TwoWayCopyBenchmark(Bytes size, int repetitions) {
  Author author(2);
  Benchmark benchmark;
  const Index event = author.MakeEvent("begin");
  author.Add(Opcode::kKernel, kCompute, RunAhead(author, static_cast<std::size_t>(repetitions)));
  author.Then(kCompute, kCommunication, event);
  benchmark.probes.resize(2);
  for (int i = 0; i <= repetitions; ++i) {
    for (const std::uint16_t stream : {kCompute, kCommunication}) {
      benchmark.probes[stream].operations.push_back(author.Add(Opcode::kCopy, stream, stream));
    }
  }
  const Index done = author.MakeEvent("end");
  author.Then(kCommunication, kCompute, done);
  benchmark.program = author.Take();
  benchmark.program.copies = {{program::CopyDirection::kHostToDevice, size},
                              {program::CopyDirection::kDeviceToHost, size}};
  return benchmark;
}

Benchmark LaunchBenchmark(const std::vector<int>& group) {
  constexpr int kKernels = 200;
  constexpr int kCollectives = 50;
  Author author(2);
  Benchmark benchmark;
  const Index event = author.MakeEvent("begin");
  author.Add(Opcode::kKernel, kCompute, RunAhead(author, kKernels + kCollectives));
  author.Then(kCompute, kCommunication, event);
  Probe chain = Chain(author, Opcode::kKernel, kCompute, author.MakeKernel(MemoryKernel(Bytes(64))),
                      kKernels);
  Probe issue = chain;
  issue.rule = Rule::kIssue;
  benchmark.probes = {std::move(chain), std::move(issue)};
  if (group.size() > 1) {
    author.MakeCommunicator(group);
    const auto ranks = static_cast<std::int64_t>(group.size());
    const Bytes size(kFp32Size * ranks);
    const Author::Operands tiny = author.MakeOperands("tiny", CollectiveKind::kAllReduce, size);
    const Index collective = author.MakeCollective(CollectiveKind::kAllReduce, size);
    Probe collectives;
    collectives.rule = Rule::kIssue;
    for (int i = 0; i < kCollectives; ++i) {
      collectives.operations.push_back(author.Communicate(collective, tiny, 0));
    }
    benchmark.probes.push_back(std::move(collectives));
    benchmark.groups = {group};
  }
  const Index done = author.MakeEvent("end");
  author.Then(kCommunication, kCompute, done);
  benchmark.program = author.Take();
  return benchmark;
}

Benchmark CollectiveBenchmark(CollectiveKind kind, const std::vector<Bytes>& sizes,
                              const std::vector<std::vector<int>>& groups, int rank) {
  const auto own = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& group) {
    return std::find(group.begin(), group.end(), rank) != group.end();
  });
  STEPCAST_CHECK(own != groups.end(), "every rank must belong to a group");
  Author author(2, rank);
  Benchmark benchmark;
  benchmark.groups = groups;
  author.MakeCommunicator(*own);
  const std::int64_t position = PositionIn(*own, rank);
  const Bytes largest = *std::max_element(sizes.begin(), sizes.end());
  const Author::Operands data = author.MakeOperands("data", kind, largest);
  const Index pause = author.MakePause(kPause);
  const Index computed = author.MakeEvent("computed");
  const Index communicated = author.MakeEvent("communicated");
  for (const Bytes size : sizes) {
    author.Add(Opcode::kKernel, kCompute, pause);
    author.Then(kCompute, kCommunication, computed);
    const Index operation =
        kind == CollectiveKind::kSendRecv
            ? author.PassOn(size, data)
            : author.Communicate(author.MakeCollective(kind, size), data, position);
    benchmark.probes.push_back({Rule::kCollective, {operation}});
    author.Then(kCommunication, kCompute, communicated);
  }
  benchmark.program = author.Take();
  return benchmark;
}

Chains ChainsBeside(double kernel, double collective) {
  constexpr double kLength = 0.2;
  constexpr double kLeast = 4;
  constexpr double kMany = 300;
  constexpr double kMost = 5000;  // beyond it, the longer one ends alone
  const double length = std::max(kLeast * std::max(kernel, collective),
                                 std::min(kLength, kMany * std::min(kernel, collective)));
  const auto count = [&](double each) {
    return static_cast<int>(std::clamp(std::ceil(length / each), kLeast, kMost));
  };
  return {count(kernel), count(collective)};
}

Benchmark OverlapBenchmark(const Kernel& kernel, int kernels, CollectiveKind kind, Bytes size,
                           int collectives, const std::vector<int>& group, int rank) {
  Author author(2);
  Benchmark benchmark;
  benchmark.groups = {group};
  author.MakeCommunicator(group);
  const Author::Operands data = author.MakeOperands("data", kind, size);
  const Index begin = author.MakeEvent("begin");
  const Index done = author.MakeEvent("end");
  author.Add(Opcode::kKernel, kCompute,
             RunAhead(author, static_cast<std::size_t>(kernels + collectives)));
  author.Then(kCompute, kCommunication, begin);
  // Alternates in host order, since a long chain would fill the device's queue and delay the other
  // chain.
  const int all_kernels = kernels > 0 ? 1 + kernels : 0;
  const int all_collectives = collectives > 0 ? 1 + collectives : 0;
  const Index own = kernels > 0 ? author.MakeKernel(kernel) : kNone;
  const Index collective = collectives > 0 ? author.MakeCollective(kind, size) : kNone;
  Probe of_kernel, of_collective;
  for (int k = 0, c = 0; k < all_kernels || c < all_collectives;) {
    if (c == all_collectives || (k < all_kernels && k * all_collectives <= c * all_kernels)) {
      of_kernel.operations.push_back(author.Add(Opcode::kKernel, kCompute, own));
      ++k;
    } else {
      of_collective.operations.push_back(
          author.Communicate(collective, data, PositionIn(group, rank)));
      ++c;
    }
  }
  if (kernels > 0) benchmark.probes.push_back(std::move(of_kernel));
  if (collectives > 0) benchmark.probes.push_back(std::move(of_collective));
  author.Then(kCommunication, kCompute, done);
  benchmark.program = author.Take();
  return benchmark;
}

}  // namespace stepcast::calibrate
