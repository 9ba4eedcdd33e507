#include "tests/training/interpreter.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/program/data_flow.h"
#include "src/runtime/values/gradients.h"
#include "src/runtime/values/number_types.h"
#include "src/runtime/values/optimizers.h"
#include "src/runtime/values/random_values.h"
#include "tests/proofs/data_flow_validator.h"

namespace stepcast::training {

using program::Effect;
using program::EffectKind;
using program::Elements;
using program::Index;
using program::Instruction;
using program::Opcode;
namespace values = runtime::values;

Interpreter::Interpreter(std::vector<program::Program> programs, Gradients gradients,
                         std::uint64_t seed)
    : programs_(std::move(programs)), gradients_(gradients), seed_(seed) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const program::Program& program = programs_[rank];
    named_.push_back(NamedBuffers(program));
    memory_.emplace_back(program.buffers.size());
    for (const Instruction& instruction : program.prologue) {
      if (instruction.opcode == Opcode::kAllocate) Allocate(rank, instruction.operand);
    }
    for (const program::StatePart& part : program.data_flow.state) {
      std::byte* const place = Place(rank, part.place, part.elements);
      values::WithStorageType(part.place.type, [&](auto type) {
        auto* const elements = reinterpret_cast<decltype(type)*>(place);
        for (std::int64_t i = 0; i < part.elements; ++i) {
          elements[i] = values::FromFp32<decltype(type)>(
              part.role == program::StateRole::kMoment
                  ? 0.0f
                  : values::InitialValue(values::SeedHash(seed_), part.first_element + i));
        }
      });
    }
  }
}

std::vector<bool> Interpreter::NamedBuffers(const program::Program& program) {
  std::vector<bool> named(program.buffers.size(), false);
  const auto name = [&](const Elements& place) {
    if (place.buffer != program::kNone) named[place.buffer] = true;
  };
  for (const program::StatePart& part : program.data_flow.state) name(part.place);
  for (const Effect& effect : program.data_flow.effects) {
    name(effect.target);
    name(effect.source);
    name(effect.states);
  }
  return named;
}

void Interpreter::Allocate(int rank, Index buffer) {
  if (!named_[rank][buffer]) return;
  const auto size = static_cast<std::size_t>(programs_[rank].buffers[buffer].size.count());
  memory_[rank][buffer].assign(size, std::byte{0xff});
}

std::byte* Interpreter::Place(int rank, const Elements& elements, std::int64_t count) {
  std::vector<std::byte>& buffer = memory_[rank][elements.buffer];
  STEPCAST_CHECK(elements.offset + BytesOf(count, elements.type) <=
                     Bytes(static_cast<std::int64_t>(buffer.size())),
                 "the buffer is allocated and large enough");
  return buffer.data() + elements.offset.count();
}

void Interpreter::Step() {
  const auto& step = programs_[0].step;
  for (std::size_t i = 0; i < step.size(); ++i) {
    std::vector<Effect> collectives;
    for (int rank = 0; rank < ranks(); ++rank) {
      const program::Program& program = programs_[rank];
      const Instruction& instruction = program.step[i];
      if (instruction.opcode == Opcode::kAllocate) Allocate(rank, instruction.operand);
      if (instruction.opcode == Opcode::kRelease) memory_[rank][instruction.operand].clear();
      for (Index e = program.data_flow.first[i]; e < program.data_flow.first[i + 1]; ++e) {
        const Effect& effect = program.data_flow.effects[e];
        if (effect.kind == EffectKind::kCollective) {
          collectives.push_back(effect);
          break;
        }
        Run(rank, effect, instruction);
      }
    }
    if (collectives.empty()) continue;
    Communicate(i, collectives);
    // Applies the instruction to the result.
    for (int rank = 0; rank < ranks(); ++rank) {
      const program::DataFlow& flow = programs_[rank].data_flow;
      bool behind = false;
      for (Index e = flow.first[i]; e < flow.first[i + 1]; ++e) {
        if (behind) Run(rank, flow.effects[e], programs_[rank].step[i]);
        behind = behind || flow.effects[e].kind == EffectKind::kCollective;
      }
    }
  }
  ++step_;
}

void Interpreter::Run(int rank, const Effect& effect, const Instruction& instruction) {
  switch (effect.kind) {
    case EffectKind::kGradient:
      return Gradient(rank, effect, instruction.micro_batch);
    case EffectKind::kMove:
      return Move(rank, effect);
    case EffectKind::kUpdate:
      return Update(rank, effect);
    case EffectKind::kSquares:
      return Squares(rank, effect);
    case EffectKind::kClip:
      return Clip(rank, effect);
    case EffectKind::kMix:
      STEPCAST_CHECK(false, "ranks of several pipeline stages have no instructions in common");
      return;
    case EffectKind::kCollective:
      STEPCAST_CHECK(false, "an instruction has one collective");
  }
}

void Interpreter::Gradient(int rank, const Effect& effect, int micro_batch) {
  const std::uint32_t integers = values::SmallIntegerSeed(rank, step_, micro_batch);
  const std::uint32_t quadratic = values::QuadraticSeed(rank, micro_batch);
  values::WithStorageType(effect.target.type, [&](auto target_type) {
    values::WithStorageType(effect.source.type, [&](auto source_type) {
      using Target = decltype(target_type);
      auto* const target = reinterpret_cast<Target*>(Place(rank, effect.target, effect.elements));
      const auto* const source =
          reinterpret_cast<decltype(source_type)*>(Place(rank, effect.source, effect.elements));
      for (std::int64_t i = 0; i < effect.elements; ++i) {
        const float parameter = values::ToFp32(source[i]);
        const std::int64_t element = effect.first_element + i;
        const float gradient = gradients_ == Gradients::kSmallIntegers
                                   ? values::SmallIntegerGradient(parameter, integers, element)
                                   : values::QuadraticGradient(parameter, quadratic, element);
        target[i] = values::FromFp32<Target>(
            values::AddScaled(effect.add ? values::ToFp32(target[i]) : 0.0f,
                              static_cast<float>(effect.scale), gradient));
      }
    });
  });
}

void Interpreter::Move(int rank, const Effect& effect) {
  values::WithStorageType(effect.target.type, [&](auto target_type) {
    values::WithStorageType(effect.source.type, [&](auto source_type) {
      using Target = decltype(target_type);
      auto* const target =
          reinterpret_cast<Target*>(Place(rank, effect.target, program::TargetExtent(effect)));
      const auto* const source = reinterpret_cast<decltype(source_type)*>(
          Place(rank, effect.source, program::SourceExtent(effect)));
      for (std::int64_t i = 0; i < effect.elements; ++i) {
        const std::int64_t block = i / effect.block, in_block = i % effect.block;
        Target& to = target[block * effect.target_stride + in_block];
        const float from = values::ToFp32(source[block * effect.source_stride + in_block]);
        to = values::FromFp32<Target>(values::AddScaled(effect.add ? values::ToFp32(to) : 0.0f,
                                                        static_cast<float>(effect.scale), from));
      }
    });
  });
}

void Interpreter::Squares(int rank, const Effect& effect) {
  auto* const number = reinterpret_cast<float*>(Place(rank, effect.target, 1));
  values::WithStorageType(effect.source.type, [&](auto type) {
    const auto* const source =
        reinterpret_cast<decltype(type)*>(Place(rank, effect.source, effect.elements));
    *number = values::StoredSquares(*number, effect.add, static_cast<float>(effect.scale),
                                    values::SumOfSquares(source, effect.elements));
  });
}

void Interpreter::Clip(int rank, const Effect& effect) {
  const float squares = *reinterpret_cast<float*>(Place(rank, effect.source, 1));
  const float factor = values::ClipFactor(squares, static_cast<float>(effect.scale));
  values::WithStorageType(effect.target.type, [&](auto type) {
    auto* const target =
        reinterpret_cast<decltype(type)*>(Place(rank, effect.target, effect.elements));
    for (std::int64_t i = 0; i < effect.elements; ++i) {
      target[i] = values::Clipped(target[i], factor);
    }
  });
}

void Interpreter::Update(int rank, const Effect& effect) {
  const bool adamw = programs_[rank].data_flow.adamw;
  const std::int64_t reach =
      (program::StateArrays(adamw, effect) - 1) * effect.state_stride + effect.elements;
  std::byte* const states = Place(rank, effect.states, reach);
  values::WithStorageType(effect.target.type, [&](auto target_type) {
    using Parameter = decltype(target_type);
    values::WithStorageType(effect.source.type, [&](auto source_type) {
      auto* const target =
          reinterpret_cast<Parameter*>(Place(rank, effect.target, effect.elements));
      const auto* const source =
          reinterpret_cast<decltype(source_type)*>(Place(rank, effect.source, effect.elements));
      const auto update = [&](auto* of_states) {
        if (adamw) {
          values::UpdateRange(values::AdamWOf(step_ + 1), target, source, of_states,
                              effect.state_stride, effect.elements);
        } else {
          values::UpdateRange(values::SgdOf(), target, source, of_states, effect.state_stride,
                              effect.elements);
        }
      };
      if (effect.states.type == DataType::kFp32) {
        update(reinterpret_cast<float*>(states));
      } else {
        update(reinterpret_cast<Parameter*>(states));
      }
    });
  });
}

// Replaces rows that the sender does not have, so that a read of them shows.
constexpr float kNotSent = 1e30f;

void Interpreter::Communicate(std::size_t instruction, const std::vector<Effect>& effects) {
  STEPCAST_CHECK(static_cast<int>(effects.size()) == ranks(), "all ranks communicate together");
  const Index operand = programs_[0].step[instruction].operand;
  const program::Collective& collective = programs_[0].collectives[operand];
  const bool scatters = collective.kind == CollectiveKind::kReduceScatter;
  const bool gathers = collective.kind == CollectiveKind::kAllGather;
  const bool exchanges = collective.kind == CollectiveKind::kAllToAll;
  const auto read = [&](int rank, std::int64_t count) {
    std::vector<float> result;
    const Elements& place = effects[rank].source;
    values::WithStorageType(place.type, [&](auto type) {
      const auto* source = reinterpret_cast<decltype(type)*>(Place(rank, place, count));
      values::WithStorageType(collective.data_type, [&](auto wire) {
        for (std::int64_t i = 0; i < count; ++i) {
          result.push_back(
              values::ToFp32(values::FromFp32<decltype(wire)>(values::ToFp32(source[i]))));
        }
      });
    });
    return result;
  };
  std::vector<std::vector<float>> results(effects.size());
  std::vector<bool> done(effects.size(), false);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (done[rank]) continue;
    const auto group_of = [&](int member) -> const std::vector<int>& {
      const program::Program& program = programs_[member];
      return program.groups[program.communicators[collective.communicator].group].ranks;
    };
    const std::vector<int>& group = group_of(rank);
    const std::int64_t elements = effects[rank].elements;
    const auto members = static_cast<std::int64_t>(group.size());
    std::vector<float> whole;
    const std::int64_t sent = program::PartsOf(collective.kind, elements, members).sent;
    for (const int member : group) {
      STEPCAST_CHECK(group_of(member) == group, "members agree on their group");
      const std::vector<float> given = read(member, sent);
      if (gathers || exchanges) {
        whole.insert(whole.end(), given.begin(), given.end());
      } else if (collective.kind == CollectiveKind::kBroadcast) {
        if (member == group[static_cast<std::size_t>(collective.root)]) whole = given;
      } else if (whole.empty()) {
        whole = given;
      } else {
        std::transform(whole.begin(), whole.end(), given.begin(), whole.begin(), values::Add);
      }
    }
    if (collective.average) {
      for (float& value : whole) value = values::Divide(value, static_cast<float>(members));
    }
    values::WithStorageType(collective.data_type, [&](auto wire) {
      for (float& value : whole) value = values::ToFp32(values::FromFp32<decltype(wire)>(value));
    });
    for (std::int64_t m = 0; m < members; ++m) {
      const std::int64_t part = elements / members;
      done[group[m]] = true;
      if (exchanges) {
        // `whole` holds the data that each member sends, one member after another.
        std::vector<float>& received = results[group[m]];
        for (int p = 0; p + 1 < static_cast<int>(members); ++p) {
          const auto from =
              program::AllToAllSender(static_cast<int>(m), p, static_cast<int>(members));
          const auto first = whole.begin() + from * sent + p * part;
          const std::int64_t moved =
              ElementsSent(collective.loads, part, collective.data_type, from, static_cast<int>(m));
          received.insert(received.end(), first, first + moved);
          received.resize(static_cast<std::size_t>((p + 1) * part), kNotSent);
        }
        continue;
      }
      const auto first = whole.begin() + (scatters ? m * part : 0);
      results[group[m]].assign(first, scatters ? first + part : whole.end());
    }
  }
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto count = static_cast<std::int64_t>(results[rank].size());
    const Elements& place = effects[rank].target;
    values::WithStorageType(place.type, [&](auto type) {
      auto* const target = reinterpret_cast<decltype(type)*>(Place(rank, place, count));
      for (std::int64_t i = 0; i < count; ++i) {
        target[i] = values::FromFp32<decltype(type)>(results[rank][i]);
      }
    });
  }
}

std::vector<float> Interpreter::Read(int rank, const program::StatePart& part) const {
  std::vector<float> result;
  const std::byte* const place =
      memory_[rank][part.place.buffer].data() + part.place.offset.count();
  values::WithStorageType(part.place.type, [&](auto type) {
    const auto* const elements = reinterpret_cast<const decltype(type)*>(place);
    for (std::int64_t i = 0; i < part.elements; ++i) result.push_back(values::ToFp32(elements[i]));
  });
  return result;
}

}  // namespace stepcast::training
