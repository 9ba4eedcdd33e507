#include "src/program/data_flow_validator.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "fmt/format.h"
#include "src/program/data_flow.h"
#include "src/program/description.h"

namespace stepcast::program {
namespace {

std::int64_t Extent(const Effect& move, std::int64_t stride) {
  if (move.elements <= move.block) return move.elements;
  const std::int64_t last_block = (move.elements - 1) / move.block;
  return last_block * stride + (move.elements - last_block * move.block);
}

class Check {
 public:
  explicit Check(const Program& program) : program_(program), flow_(program.data_flow) {}

  std::vector<std::string> Run() {
    if (flow_.empty()) return {};
    CheckState();
    if (!CheckFirst()) return std::move(sentences_);
    for (std::size_t i = 0; i < program_.step.size(); ++i) {
      instruction_ = &program_.step[i];
      position_ = i;
      const std::span<const Effect> effects(flow_.effects.data() + flow_.first[i],
                                            flow_.effects.data() + flow_.first[i + 1]);
      CheckPlace(effects);
      for (const Effect& effect : effects) CheckEffect(effect);
    }
    return std::move(sentences_);
  }

 private:
  bool CheckFirst() {
    const std::vector<Index>& first = flow_.first;
    const bool fits = first.size() == program_.step.size() + 1 && first.front() == 0 &&
                      first.back() == flow_.effects.size() &&
                      std::is_sorted(first.begin(), first.end());
    if (!fits) {
      sentences_.push_back(
          fmt::format("the step has {} instructions and {} effects, which do not match the table "
                      "of {} first effects",
                      program_.step.size(), flow_.effects.size(), first.size()));
    }
    return fits;
  }

  bool Inside(const Elements& place, std::int64_t elements) const {
    if (place.buffer >= program_.buffers.size() || elements < 0 || place.offset < Bytes(0)) {
      return false;
    }
    const Bytes size = program_.buffers[place.buffer].size;
    return elements <= size.count() / SizeOf(place.type) &&
           place.offset + BytesOf(elements, place.type) <= size;
  }

  void CheckState() {
    std::vector<bool> kept(program_.buffers.size(), false);
    for (const Instruction& instruction : program_.prologue) {
      if (instruction.opcode == Opcode::kAllocate) kept[instruction.operand] = true;
    }
    std::vector<StatePart> parts;
    for (const StatePart& part : flow_.state) {
      if (part.elements <= 0 || part.first_element < 0 || !Inside(part.place, part.elements)) {
        sentences_.push_back(
            fmt::format("{} elements of state, starting at {}, are outside of "
                        "buffers",
                        part.elements, part.first_element));
      } else if (!kept[part.place.buffer]) {
        sentences_.push_back(
            fmt::format("state is in buffer '{}', which is not allocated before the first step",
                        program_.NameOf(program_.buffers[part.place.buffer])));
      } else {
        parts.push_back(part);
      }
    }
    std::sort(parts.begin(), parts.end(), [](const StatePart& a, const StatePart& b) {
      return a.place.buffer != b.place.buffer ? a.place.buffer < b.place.buffer
                                              : a.place.offset < b.place.offset;
    });
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const StatePart& before = parts[i - 1];
      if (before.place.buffer == parts[i].place.buffer &&
          before.place.offset + BytesOf(before.elements, before.place.type) >
              parts[i].place.offset) {
        sentences_.push_back(fmt::format("two parts of the state overlap in buffer '{}'",
                                         program_.NameOf(program_.buffers[before.place.buffer])));
      }
    }
  }

  void Report(const Effect& effect, std::string_view what) {
    constexpr std::string_view kNames[] = {"gradient", "move",    "update",    "squares",
                                           "clipping", "mixture", "collective"};
    sentences_.push_back(fmt::format("step[{}] {}: the instruction's {} of {} elements {}",
                                     position_, Describe(program_, *instruction_),
                                     kNames[static_cast<std::size_t>(effect.kind)], effect.elements,
                                     what));
  }

  // Only device operations have effects, and a collective has exactly one.
  void CheckPlace(std::span<const Effect> effects) {
    const auto collectives = std::count_if(effects.begin(), effects.end(), [](const Effect& e) {
      return e.kind == EffectKind::kCollective;
    });
    const bool is_collective = instruction_->opcode == Opcode::kCollective;
    if (collectives != (is_collective ? 1 : 0)) {
      sentences_.push_back(fmt::format("step[{}] {} has {} effects of a collective", position_,
                                       Describe(program_, *instruction_), collectives));
    }
    const bool runs = instruction_->opcode == Opcode::kKernel || is_collective ||
                      instruction_->opcode == Opcode::kCopy;
    if (!runs && !effects.empty()) {
      sentences_.push_back(
          fmt::format("step[{}] {} has effects, but is not a kernel, copy or collective", position_,
                      Describe(program_, *instruction_)));
    }
    for (const Effect& effect : effects) {
      const bool of_kernels =
          effect.kind != EffectKind::kMove && effect.kind != EffectKind::kCollective;
      if (of_kernels && instruction_->opcode != Opcode::kKernel) {
        Report(effect, "belongs to no kernel");
      }
    }
  }

  // Whether the instruction's uses cover the range; a written range needs a writing use.
  bool Declared(const Elements& place, std::int64_t elements, bool write) const {
    const std::span<const BufferUse> uses(program_.uses.data() + instruction_->first_use,
                                          instruction_->use_count);
    std::int64_t at = place.offset.count();
    const std::int64_t end = at + elements * SizeOf(place.type);
    while (at < end) {
      std::int64_t reached = at;
      for (const BufferUse& use : uses) {
        if (use.buffer != place.buffer || (write && !use.write) || use.offset.count() > at) {
          continue;
        }
        reached = std::max(reached, (use.offset + use.size).count());
      }
      if (reached == at) return false;
      at = reached;
    }
    return true;
  }

  void CheckRange(const Effect& effect, std::string_view what, const Elements& place,
                  std::int64_t elements, bool write) {
    if (!Inside(place, elements)) {
      Report(effect, fmt::format("{} {} elements outside of a buffer", what, elements));
    } else if (!Declared(place, elements, write)) {
      Report(effect,
             fmt::format("{} bytes [{}, {}) of buffer '{}', which the instruction does not declare",
                         what, place.offset.count(),
                         (place.offset + BytesOf(elements, place.type)).count(),
                         program_.NameOf(program_.buffers[place.buffer])));
    }
  }

  void CheckEffect(const Effect& effect) {
    if (effect.elements < 0 || (effect.elements == 0 && effect.kind != EffectKind::kSquares)) {
      Report(effect, "is empty");
      return;
    }
    switch (effect.kind) {
      case EffectKind::kGradient:
        if (effect.first_element < 0) Report(effect, "refers to elements before the first one");
        CheckRange(effect, "writes", effect.target, effect.elements, true);
        CheckRange(effect, "reads", effect.source, effect.elements, false);
        if (effect.states.buffer != kNone) CheckRange(effect, "reads", effect.states, 1, false);
        return;
      case EffectKind::kMix:
        CheckRange(effect, "writes", effect.target, 1, true);
        CheckNumber(effect, effect.target);
        for (const Elements& place : {effect.source, effect.states}) {
          if (place.buffer == kNone) continue;
          CheckRange(effect, "reads", place, 1, false);
          CheckNumber(effect, place);
        }
        return;
      case EffectKind::kMove:
        CheckMove(effect);
        return;
      case EffectKind::kUpdate:
        CheckRange(effect, "writes", effect.target, effect.elements, true);
        CheckRange(effect, "reads", effect.source, effect.elements, false);
        for (std::int64_t array = 0; array < StateArrays(flow_.adamw, effect); ++array) {
          Elements states = effect.states;
          states.offset += BytesOf(array * effect.state_stride, states.type);
          CheckRange(effect, "writes", states, effect.elements, true);
        }
        if ((effect.states.type != DataType::kFp32 && effect.states.type != effect.target.type) ||
            effect.state_stride < effect.elements) {
          Report(effect,
                 "has states that are not consecutive arrays in FP32 or in the target's type");
        }
        return;
      case EffectKind::kSquares:
        CheckRange(effect, "writes", effect.target, 1, true);
        CheckRange(effect, "reads", effect.source, effect.elements, false);
        CheckNumber(effect, effect.target);
        return;
      case EffectKind::kClip:
        CheckRange(effect, "writes", effect.target, effect.elements, true);
        CheckRange(effect, "reads", effect.source, 1, false);
        CheckNumber(effect, effect.source);
        return;
      case EffectKind::kCollective:
        if (instruction_->opcode == Opcode::kCollective) CheckCollective(effect);
        return;
    }
  }

  void CheckNumber(const Effect& effect, const Elements& number) {
    if (number.type != DataType::kFp32) Report(effect, "has a number that is not FP32");
  }

  void CheckMove(const Effect& effect) {
    const bool blocks = effect.elements > effect.block;
    if (effect.block <= 0 ||
        (blocks && (effect.target_stride < effect.block || effect.source_stride < effect.block))) {
      Report(effect, "has blocks that overlap");
      return;
    }
    const std::int64_t target = TargetExtent(effect), source = SourceExtent(effect);
    CheckRange(effect, "writes", effect.target, target, true);
    CheckRange(effect, "reads", effect.source, source, false);
    // Element by element in place (a scaling) is valid; any other overlap is not.
    const bool in_place = !blocks && effect.target.buffer == effect.source.buffer &&
                          effect.target.offset == effect.source.offset &&
                          effect.target.type == effect.source.type;
    if (!in_place && Overlap(effect.target, target, effect.source, source)) {
      Report(effect, "writes where it reads");
    }
  }

  static bool Overlap(const Elements& a, std::int64_t a_elements, const Elements& b,
                      std::int64_t b_elements) {
    return a.buffer == b.buffer && a.offset < b.offset + BytesOf(b_elements, b.type) &&
           b.offset < a.offset + BytesOf(a_elements, a.type);
  }

  void CheckCollective(const Effect& effect) {
    const Collective& collective = program_.collectives[instruction_->operand];
    const auto ranks = static_cast<std::int64_t>(
        program_.groups[program_.communicators[collective.communicator].group].ranks.size());
    if (BytesOf(effect.elements, collective.data_type) != collective.bytes) {
      Report(effect,
             fmt::format("does not have the collective's {} bytes", collective.bytes.count()));
    }
    if (HasPartForEachRank(collective.kind) && effect.elements % ranks != 0) {
      Report(effect, fmt::format("cannot be divided by {} ranks", ranks));
      return;
    }
    const auto [source, target] = PartsOf(collective.kind, effect.elements, ranks);
    CheckRange(effect, "writes", effect.target, target, true);
    CheckRange(effect, "reads", effect.source, source, false);
    if (!Overlap(effect.target, target, effect.source, source)) return;
    if (collective.kind == CollectiveKind::kAllToAll) {
      Report(effect, "writes where it reads");
      return;
    }
    // In place: the same range, or one of the parts of the whole. The program does not state which
    // part is the rank's.
    const bool gathers = collective.kind == CollectiveKind::kAllGather;
    const Elements& whole = gathers ? effect.target : effect.source;
    const Elements& part = gathers ? effect.source : effect.target;
    const std::int64_t apart = (part.offset - whole.offset).count();
    const std::int64_t length = std::min(target, source) * SizeOf(whole.type);
    const bool in_place = part.type == whole.type && apart >= 0 &&
                          apart + length <= effect.elements * SizeOf(whole.type) &&
                          apart % length == 0;
    if (!in_place) Report(effect, "is neither in place nor out of place");
  }

  const Program& program_;
  const DataFlow& flow_;
  const Instruction* instruction_ = nullptr;
  std::size_t position_ = 0;
  std::vector<std::string> sentences_;
};

}  // namespace

std::int64_t TargetExtent(const Effect& move) { return Extent(move, move.target_stride); }
std::int64_t SourceExtent(const Effect& move) { return Extent(move, move.source_stride); }

std::vector<std::string> ValidateDataFlow(const Program& program) { return Check(program).Run(); }

}  // namespace stepcast::program
