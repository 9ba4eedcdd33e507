#include "src/runtime/cuda/launch_plan.h"

#include <algorithm>
#include <numeric>

#include "src/base/check.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;

constexpr std::int64_t kAlignment = 256;
// The alignment of a product's result that cuBLASLt's fast algorithms need.
constexpr std::int64_t kOutputAlignment = 16;

template <typename T>
Index IndexOf(std::vector<T>& distinct, const T& value) {
  const auto found = std::find(distinct.begin(), distinct.end(), value);
  if (found != distinct.end()) return static_cast<Index>(found - distinct.begin());
  distinct.push_back(value);
  return static_cast<Index>(distinct.size() - 1);
}

// Device memory that an effect reads and writes.
Bytes ReadBy(const Effect& effect) {
  if (effect.kind == EffectKind::kClip) return BytesOf(effect.elements, effect.target.type);
  Bytes read = BytesOf(effect.elements, effect.source.type);
  if (effect.add && effect.kind != EffectKind::kSquares)
    read += BytesOf(effect.elements, effect.target.type);
  return read;
}
Bytes WrittenBy(const Effect& effect) {
  return BytesOf(effect.kind == EffectKind::kSquares ? 1 : effect.elements, effect.target.type);
}

Bytes UpdateBytes(const Effect& effect, bool adamw, bool written) {
  const std::int64_t parameter = SizeOf(effect.target.type);
  std::int64_t per_element = program::StateArrays(adamw, effect) * SizeOf(effect.states.type);
  if (written || !program::HasMasterCopy(effect)) per_element += parameter;
  if (!written) per_element += SizeOf(effect.source.type);
  return Bytes(effect.elements * per_element);
}

Attention AttentionOf(const Kernel& kernel) {
  Attention attention{
      .backward = kernel.kind == KernelKind::kAttentionGradient,
      .type = kernel.data_type == DataType::kFp8 ? DataType::kBf16 : kernel.data_type,
      .head_size = kernel.k,
      .sequence = kernel.m,
      .heads = kernel.batch,
      .key_heads = kernel.key_heads};
  attention.fused = (attention.head_size == 64 || attention.head_size == 128) &&
                    SizeOf(attention.type) == 2 && kernel.n >= kernel.m && kernel.causal;
  return attention;
}

DataType OutputType(const Kernel& kernel) {
  const std::int64_t elements = kernel.batch * kernel.m * kernel.n;
  if (SizeOf(kernel.data_type) == 4 || kernel.written >= BytesOf(elements, DataType::kFp32)) {
    return DataType::kFp32;
  }
  return kernel.data_type == DataType::kFp16 ? DataType::kFp16 : DataType::kBf16;
}

// Allocates offsets in an arena one after another, and starts again from the front when it is full.
class Walk {
 public:
  void Need(Bytes size) {
    size = AlignedInArena(size);
    total_ += size;
    largest_ = std::max(largest_, size);
  }
  // A stand-in for memory traffic wraps around by itself.
  void NeedWrapping(Bytes size) { Need(std::min(size, kArenaLimit)); }

  Bytes size() const { return std::max(largest_, std::min(total_, kArenaLimit)); }

  Bytes Take(Bytes size) {
    size = AlignedInArena(size);
    if (at_ + size > this->size()) at_ = Bytes(0);
    const Bytes place = at_;
    at_ += size;
    return place;
  }
  Bytes TakeWrapping(Bytes size) { return Take(std::min(size, kArenaLimit)); }

 private:
  Bytes total_, largest_, at_;
};

class Planner {
 public:
  Planner(const Program& program, GradientRule gradients)
      : program_(program), gradients_(gradients), outputs_(program.streams.size()) {
    plan_.multiplies.assign(program.streams.size(), false);
  }

  LaunchPlan Make() {
    for (const Kernel& kernel : program_.kernels) {
      if (kernel.kind != KernelKind::kGemm) continue;
      plan_.traffic_type = InputType(kernel);
      break;
    }
    plan_.prologue = Works(program_.prologue, false);
    plan_.step = Works(program_.step, true);
    Place(program_.prologue, plan_.prologue);
    Place(program_.step, plan_.step);
    for (std::size_t type = 0; type < inputs_.size(); ++type) {
      plan_.inputs[type] = inputs_[type].size();
    }
    for (const Walk& walk : outputs_) plan_.outputs.push_back(walk.size());
    return std::move(plan_);
  }

 private:
  static DataType InputType(const Kernel& kernel) { return kernel.data_type; }
  Walk& input(DataType type) { return inputs_[static_cast<std::size_t>(type)]; }

  std::vector<Work> Works(const std::vector<Instruction>& instructions, bool step) {
    std::vector<Work> works(instructions.size());
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      first_effect_ = last_effect_ = 0;
      if (step && !program_.data_flow.empty()) {
        first_effect_ = program_.data_flow.first[i];
        last_effect_ = program_.data_flow.first[i + 1];
      }
      if (instruction.opcode == Opcode::kKernel) works[i] = KernelWork(instruction);
      if (instruction.opcode == Opcode::kCopy) works[i] = CopyWork(instruction);
      if (instruction.opcode == Opcode::kCollective) works[i] = CollectiveWork(instruction);
      AddBatches(works[i]);
    }
    ShareExcess(instructions, works);
    NeedTraffic(instructions, works);
    return works;
  }

  void AddBatches(Work& work) {
    const std::span<const Effect> effects = program_.data_flow.effects;
    work.first_batch = work.batches_behind = static_cast<Index>(plan_.batches.size());
    bool communicates = false;
    for (Index e = first_effect_; e < last_effect_;) {
      // Batches never contain a product's effect or a part of a collective.
      Index end = e;
      while (end < last_effect_ && end != work.product_effect &&
             effects[end].kind != EffectKind::kCollective) {
        ++end;
      }
      while (e < end) {
        const auto count =
            static_cast<Index>(FirstBatch(effects.subspan(e, end - e), program_.data_flow.adamw));
        plan_.batches.push_back({e, count});
        e += count;
      }
      if (e == last_effect_) break;
      if (effects[e].kind == EffectKind::kCollective && !communicates) {
        work.batches_behind = static_cast<Index>(plan_.batches.size());
        communicates = true;
      }
      ++e;
    }
    work.last_batch = static_cast<Index>(plan_.batches.size());
    if (!communicates) work.batches_behind = work.last_batch;
  }

  Work KernelWork(const Instruction& instruction) {
    const Kernel& kernel = program_.kernels[instruction.operand];
    Work work;
    switch (kernel.kind) {
      case KernelKind::kGemm:
        AddProduct(kernel, instruction.stream, work);
        break;
      case KernelKind::kAttention:
      case KernelKind::kAttentionGradient:
        AddAttention(kernel, instruction.stream, work);
        break;
      case KernelKind::kMemoryBound:
      case KernelKind::kOptimizer:
      case KernelKind::kScan:
      case KernelKind::kScanGradient:
        AddTraffic(kernel, work);
        break;
      case KernelKind::kGiven:
        break;
    }
    return work;
  }

  void AddProduct(const Kernel& kernel, std::uint16_t stream, Work& work) {
    Product product{.batch = kernel.batch,
                    .m = kernel.m,
                    .n = kernel.n,
                    .k = kernel.k,
                    .layout = kernel.layout,
                    .input = InputType(kernel),
                    .output = OutputType(kernel),
                    .output_alignment = kAlignment};
    // Tensor cores multiply fp8 only in this layout; frameworks transpose the operands beforehand.
    if (product.input == DataType::kFp8) product.layout = ProductLayout::kForward;
    if (gradients_ == GradientRule::kComputed) {
      for (Index e = first_effect_; e < last_effect_; ++e) {
        const Effect& effect = program_.data_flow.effects[e];
        if (effect.kind != EffectKind::kGradient ||
            effect.elements != product.batch * product.m * product.n || !CanHold(effect, product)) {
          continue;
        }
        // Buffers are aligned to at least 256 bytes.
        const std::int64_t offset = effect.target.offset.count();
        const std::int64_t alignment = std::gcd(kAlignment, offset);
        if (alignment < kOutputAlignment) continue;
        work.product_effect = e;
        product.output = effect.target.type;
        product.add = effect.add;
        product.output_alignment = alignment;
        break;
      }
    }
    work.product = IndexOf(plan_.products, product);
    NeedProduct(product, stream, work.product_effect == kNone);
  }

  void NeedProduct(const Product& product, std::uint16_t stream, bool output) {
    plan_.multiplies[stream] = true;
    input(product.input).Need(FirstOperand(product));
    input(product.input).Need(SecondOperand(product));
    if (output) outputs_[stream].Need(Output(product));
  }

  // cuBLASLt writes FP32 products as FP32, and 16-bit products as their own type or as FP32.
  static bool CanHold(const Effect& effect, const Product& product) {
    if (effect.target.type == DataType::kFp32) return true;
    if (product.input == DataType::kFp8) return effect.target.type == DataType::kBf16;
    return effect.target.type == product.input;
  }

  void AddAttention(const Kernel& kernel, std::uint16_t stream, Work& work) {
    const Attention attention = AttentionOf(kernel);
    if (!attention.fused) {
      // As much work as one product of queries and keys has within the mask. One matrix for all
      // heads, which stays in the cache, replaces the scores.
      const int products = attention.backward ? 5 : 2;
      const std::int64_t flops_by_key =
          2 * products * attention.heads * attention.sequence * attention.head_size;
      const Product product{.batch = attention.heads,
                            .m = attention.sequence,
                            .n = attention.head_size,
                            .k = std::max<std::int64_t>(1, kernel.flops / flops_by_key),
                            .layout = ProductLayout::kInputGradient,
                            .input = attention.type,
                            .output = attention.type,
                            .output_alignment = kAlignment,
                            .shared_first = true};
      work.product = IndexOf(plan_.products, product);
      work.times = products;
      NeedProduct(product, stream, true);
      return;
    }
    work.attention = IndexOf(plan_.attentions, attention);
    work.read = InputOf(attention);
    work.written = OutputOf(attention);
    input(attention.type).Need(work.read);
    outputs_[stream].Need(work.written);
  }

  void AddTraffic(const Kernel& kernel, Work& work) const {
    work.read = kernel.read;
    work.written = kernel.written;
    for (Index e = first_effect_; e < last_effect_; ++e) {
      const Effect& effect = program_.data_flow.effects[e];
      const bool update = effect.kind == EffectKind::kUpdate;
      const bool adamw = program_.data_flow.adamw;
      work.read -= update ? UpdateBytes(effect, adamw, false) : ReadBy(effect);
      work.written -= update ? UpdateBytes(effect, adamw, true) : WrittenBy(effect);
    }
    // A negative value is handled by ShareExcess.
  }

  // An optimizer's chain of kernels has a single update effect, attached to one kernel. It moves
  // more bytes than that kernel, so the kernels before it move fewer. The chain's total is
  // unchanged.
  void ShareExcess(const std::vector<Instruction>& instructions, std::vector<Work>& works) const {
    for (std::size_t i = 0; i < works.size(); ++i) {
      Bytes read = std::max(Bytes(0) - works[i].read, Bytes(0));
      Bytes written = std::max(Bytes(0) - works[i].written, Bytes(0));
      works[i].read += read;
      works[i].written += written;
      for (std::size_t j = i; j-- > 0 && (read > Bytes(0) || written > Bytes(0));) {
        const Instruction& before = instructions[j];
        if (before.opcode != Opcode::kKernel || before.stream != instructions[i].stream ||
            program_.kernels[before.operand].kind != KernelKind::kOptimizer ||
            program_.kernels[instructions[i].operand].kind != KernelKind::kOptimizer) {
          break;
        }
        const Bytes less_read = std::min(read, works[j].read);
        const Bytes less_written = std::min(written, works[j].written);
        works[j].read -= less_read;
        works[j].written -= less_written;
        read -= less_read;
        written -= less_written;
      }
    }
  }

  void NeedTraffic(const std::vector<Instruction>& instructions, const std::vector<Work>& works) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (instructions[i].opcode != Opcode::kKernel) continue;
      const KernelKind kind = program_.kernels[instructions[i].operand].kind;
      if (kind != KernelKind::kMemoryBound && kind != KernelKind::kOptimizer) continue;
      input(plan_.traffic_type).NeedWrapping(works[i].read);
      outputs_[instructions[i].stream].NeedWrapping(works[i].written);
    }
  }

  Work CopyWork(const Instruction& instruction) {
    const program::Copy& copy = program_.copies[instruction.operand];
    Work work;
    work.read = work.written = copy.bytes;
    for (Index e = first_effect_; e < last_effect_; ++e) {
      work.read -= WrittenBy(program_.data_flow.effects[e]);
    }
    work.read = work.written = std::max(work.read, Bytes(0));
    if (copy.direction != program::CopyDirection::kDeviceToDevice) {
      plan_.host = std::max(plan_.host, std::min(work.read, kHostPiece));
    }
    if (copy.direction != program::CopyDirection::kHostToDevice) {
      input(plan_.traffic_type).NeedWrapping(work.read);
    }
    if (copy.direction != program::CopyDirection::kDeviceToHost) {
      outputs_[instruction.stream].NeedWrapping(work.written);
    }
    return work;
  }

  // Data without effects is communicated between stand-ins.
  Work CollectiveWork(const Instruction& instruction) {
    const program::Collective& collective = program_.collectives[instruction.operand];
    const auto ranks = static_cast<std::int64_t>(
        program_.groups[program_.communicators[collective.communicator].group].ranks.size());
    Work work;
    work.read = collective.bytes;
    Bytes staging;
    for (Index e = first_effect_; e < last_effect_; ++e) {
      const Effect& effect = program_.data_flow.effects[e];
      if (effect.kind != EffectKind::kCollective) continue;
      work.read -= BytesOf(effect.elements, collective.data_type);
      const program::CollectiveParts parts =
          program::PartsOf(collective.kind, effect.elements, ranks);
      if (effect.source.type != collective.data_type) {
        staging += AlignedInArena(BytesOf(parts.sent, collective.data_type));
      }
      if (effect.target.type != collective.data_type) {
        staging += AlignedInArena(BytesOf(parts.received, collective.data_type));
      }
    }
    // Less than an element for each rank is a rounding error.
    if (work.read < Bytes(SizeOf(collective.data_type) * ranks)) work.read = Bytes(0);
    work.written = work.read;
    input(collective.data_type).Need(work.read);
    outputs_[instruction.stream].Need(AlignedInArena(work.written) + staging);
    work.staging = staging;
    return work;
  }

  void Place(const std::vector<Instruction>& instructions, std::vector<Work>& works) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      Work& work = works[i];
      const Instruction& instruction = instructions[i];
      if (work.product != kNone) {
        const Product& product = plan_.products[work.product];
        work.first_operand = input(product.input).Take(FirstOperand(product));
        work.second_operand = input(product.input).Take(SecondOperand(product));
        if (work.product_effect == kNone) {
          work.output = outputs_[instruction.stream].Take(Output(product));
        }
      } else if (work.attention != kNone) {
        const DataType type = plan_.attentions[work.attention].type;
        work.first_operand = input(type).Take(work.read);
        work.output = outputs_[instruction.stream].Take(work.written);
      } else if (instruction.opcode == Opcode::kCollective) {
        const DataType type = program_.collectives[instruction.operand].data_type;
        work.first_operand = input(type).Take(work.read);
        const Bytes staging = work.staging;
        work.output = outputs_[instruction.stream].Take(AlignedInArena(work.written) + staging);
        work.staging = work.output + AlignedInArena(work.written);
      } else if (work.read > Bytes(0) || work.written > Bytes(0)) {
        work.first_operand = input(plan_.traffic_type).TakeWrapping(work.read);
        work.output = outputs_[instruction.stream].TakeWrapping(work.written);
      }
    }
  }

  const Program& program_;
  GradientRule gradients_;
  LaunchPlan plan_;
  std::array<Walk, kDataTypeCount> inputs_{};
  std::vector<Walk> outputs_;
  Index first_effect_ = 0, last_effect_ = 0;  // of the instruction in hand
};

}  // namespace

Bytes InputOf(const Attention& a) {
  const std::int64_t rows = a.heads * a.sequence;
  const Bytes queries = AlignedInArena(BytesOf(rows * a.head_size, a.type));
  const Bytes keys = AlignedInArena(BytesOf(a.key_heads * a.sequence * a.head_size, a.type));
  const Bytes row_numbers = AlignedInArena(Bytes(4 * rows));
  return a.backward ? 2 * queries + 2 * keys + 2 * row_numbers : queries + 2 * keys;
}

Bytes OutputOf(const Attention& a) {
  const std::int64_t rows = a.heads * a.sequence;
  const Bytes queries = AlignedInArena(BytesOf(rows * a.head_size, a.type));
  const Bytes keys = AlignedInArena(BytesOf(a.key_heads * a.sequence * a.head_size, a.type));
  const Bytes accumulator = AlignedInArena(BytesOf(rows * a.head_size, DataType::kFp32));
  return a.backward ? queries + 2 * keys + accumulator : queries + AlignedInArena(Bytes(4 * rows));
}

Bytes AlignedInArena(Bytes size) {
  return Bytes((size.count() + kAlignment - 1) / kAlignment * kAlignment);
}

Bytes FirstOperand(const Product& product) {
  const std::int64_t batch = product.shared_first ? 1 : product.batch;
  return BytesOf(batch * product.m * product.k, product.input);
}
Bytes SecondOperand(const Product& product) {
  return BytesOf(product.batch * product.k * product.n, product.input);
}
Bytes Output(const Product& product) {
  return BytesOf(product.batch * product.m * product.n, product.output);
}

LaunchPlan MakeLaunchPlan(const Program& program, GradientRule gradients) {
  return Planner(program, gradients).Make();
}

namespace {

using program::Effect;
using program::EffectKind;
using program::Elements;
using program::Index;

// Bytes of a buffer: `count` runs, with a distance of `stride` between their starts.
struct Region {
  Index buffer;
  std::int64_t begin, run, stride, count;
  std::int64_t end() const { return begin + (count - 1) * stride + run; }
};

Region RegionOf(const Elements& at, std::int64_t run, std::int64_t stride, std::int64_t count) {
  const std::int64_t size = SizeOf(at.type);
  return {at.buffer, at.offset.count(), run * size, stride * size, count};
}

Region Whole(const Elements& at, std::int64_t elements) {
  return RegionOf(at, elements, elements, 1);
}

// The region of elements that move in blocks.
Region Blocks(const Elements& at, const Effect& effect, std::int64_t stride) {
  if (effect.block <= 0 || effect.block >= effect.elements) return Whole(at, effect.elements);
  return RegionOf(at, effect.block, stride, (effect.elements + effect.block - 1) / effect.block);
}

bool Overlap(const Region& a, const Region& b) {
  if (a.buffer != b.buffer || a.end() <= b.begin || b.end() <= a.begin) return false;
  // Two regions with the same stride are disjoint if their first runs and their strides leave gaps.
  const std::int64_t stride = a.count > 1 ? a.stride : b.stride;
  const bool in_step =
      stride > 0 && (a.count == 1 || a.stride == stride) && (b.count == 1 || b.stride == stride);
  if (!in_step) return true;
  const std::int64_t apart = ((b.begin - a.begin) % stride + stride) % stride;
  return apart < a.run || apart + b.run > stride;
}

struct Footprint {
  std::vector<Region> read, written;
};

Footprint FootprintOf(const Effect& effect, bool adamw) {
  const std::int64_t n = effect.elements;
  switch (effect.kind) {
    case EffectKind::kMove:
      return {{Blocks(effect.source, effect, effect.source_stride)},
              {Blocks(effect.target, effect, effect.target_stride)}};
    case EffectKind::kUpdate: {
      const std::int64_t arrays = program::StateArrays(adamw, effect);
      return {{Whole(effect.source, n)},
              {Whole(effect.target, n), RegionOf(effect.states, n, effect.state_stride, arrays)}};
    }
    case EffectKind::kSquares:
      return {{Whole(effect.source, n)}, {Whole(effect.target, 1)}};
    case EffectKind::kClip:
      return {{Whole(effect.source, 1)}, {Whole(effect.target, n)}};
    case EffectKind::kGradient:
    case EffectKind::kMix: {
      Footprint footprint{{}, {Whole(effect.target, n)}};
      if (effect.source.buffer != program::kNone) footprint.read.push_back(Whole(effect.source, n));
      if (effect.states.buffer != program::kNone) footprint.read.push_back(Whole(effect.states, 1));
      return footprint;
    }
    case EffectKind::kCollective:
      break;
  }
  return {{Whole(effect.source, n)}, {Whole(effect.target, n)}};
}

bool AnyOverlap(const std::vector<Region>& some, const std::vector<Region>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Region& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Region& other) { return Overlap(one, other); });
  });
}

bool AtOnce(const Footprint& first, const Footprint& second, bool in_order) {
  return !AnyOverlap(first.written, second.read) && !AnyOverlap(first.read, second.written) &&
         (in_order || !AnyOverlap(first.written, second.written));
}

}  // namespace

std::size_t FirstBatch(std::span<const Effect> effects, bool adamw) {
  if (effects.size() < 2 || effects[0].kind == EffectKind::kCollective) {
    return std::min<std::size_t>(effects.size(), 1);
  }
  const Effect& first = effects[0];
  const bool in_order = first.kind == EffectKind::kSquares;
  std::vector<Footprint> batch = {FootprintOf(first, adamw)};
  for (const Effect& effect : effects.subspan(1)) {
    if (effect.kind != first.kind || effect.target.type != first.target.type ||
        effect.source.type != first.source.type || effect.states.type != first.states.type) {
      break;
    }
    Footprint footprint = FootprintOf(effect, adamw);
    if (!std::all_of(batch.begin(), batch.end(),
                     [&](const Footprint& one) { return AtOnce(one, footprint, in_order); })) {
      break;
    }
    batch.push_back(std::move(footprint));
  }
  return batch.size();
}

}  // namespace stepcast::runtime::cuda
