#include "src/lowering/program_builder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/base/check.h"

namespace stepcast::lowering {

using program::BufferUse;
using program::Opcode;

namespace {

template <typename T>
Index AddTo(std::vector<T>& table, T entry) {
  table.push_back(std::move(entry));
  return static_cast<Index>(table.size() - 1);
}

// The index of an entry in a table of distinct entries.
template <typename T, typename Same>
Index Distinct(std::vector<T>& table, const T& entry, Same same) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const T& other) { return same(other, entry); });
  if (found != table.end()) return static_cast<Index>(found - table.begin());
  return AddTo(table, entry);
}

}  // namespace

Index ProgramBuilder::AddNumbered(std::string_view text, std::size_t number) {
  return AddText(std::string(text) + std::to_string(number));
}

StreamId ProgramBuilder::AddStream(std::string name) {
  return static_cast<StreamId>(AddTo(program_.streams, {.name = std::move(name)}));
}

Index ProgramBuilder::AddCommunicator(std::string name, const parallel::GroupLayout& layout) {
  if (layout.size() == 1) return program::kNone;
  const Index group = AddTo(program_.groups,
                            {.name = name, .ranks = layout.Ranks(program_.rank), .layout = layout});
  return AddTo(program_.communicators, {.name = std::move(name), .group = group});
}

Index ProgramBuilder::AddKernel(Kernel kernel) {
  return AddTo(program_.kernels, std::move(kernel));
}

Index ProgramBuilder::AddCollective(const program::Collective& collective) {
  return Distinct(program_.collectives, collective, std::equal_to<>());
}

Index ProgramBuilder::AddExchange(const program::Exchange& exchange) {
  return Distinct(program_.exchanges, exchange, std::equal_to<>());
}

Index ProgramBuilder::AddLabel(std::string_view label) {
  return AddTo(program_.labels, std::string(label));
}

void ProgramBuilder::Use(std::span<const BufferUse> uses) {
  const auto empty = [](const BufferUse& use) { return use.size == Bytes(0); };
  if (std::none_of(uses.begin(), uses.end(), empty)) {
    UseAll(uses);
    return;
  }
  for (const BufferUse& use : uses) Use(use);
}

void ProgramBuilder::Run(StreamId stream, std::span<const Index> kernels) {
  if (describes_data_flow_ || !awaited_.empty()) {
    for (const Index kernel : kernels) Run(stream, kernel);
    return;
  }
  const UseRange uses{.first = TakeUses().first, .count = 0};
  for (const Index kernel : kernels) Append(Opcode::kKernel, stream, kernel, uses);
}

void ProgramBuilder::BeginEffects() {
  if (section_ != &program_.step) return;
  program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
}

void ProgramBuilder::AddEffects() {
  STEPCAST_CHECK(section_ == &program_.step, "only operations of the step may have effects");
  auto& effects = program_.data_flow.effects;
  effects.insert(effects.end(), pending_.begin(), pending_.end());
  pending_.clear();
}

void ProgramBuilder::With(const program::Effect& effect) {
  // The sum of squares of zero elements is zero, which is still an effect.
  const bool says_something = effect.elements > 0 || effect.kind == program::EffectKind::kSquares;
  if (describes_data_flow_ && says_something) pending_.push_back(effect);
}

void ProgramBuilder::With(std::span<const program::Effect> effects) {
  for (const program::Effect& effect : effects) With(effect);
}

void ProgramBuilder::AddState(const program::StatePart& part) {
  if (describes_data_flow_ && part.elements > 0) program_.data_flow.state.push_back(part);
}

program::Program ProgramBuilder::Take() {
  STEPCAST_CHECK(pending_.empty() && taken_uses_ == program_.uses.size(),
                 "every effect and every use must belong to an operation");
  if (describes_data_flow_) {
    program_.data_flow.first.push_back(static_cast<Index>(program_.data_flow.effects.size()));
  }
  return std::move(program_);
}

Index ProgramBuilder::AddHostTask(std::string_view name, Time duration) {
  return AddTo(program_.host_tasks, {.name = std::string(name), .duration = duration});
}

void ProgramBuilder::Copy(StreamId stream, const program::Copy& copy,
                          std::span<const BufferUse> uses) {
  const Index index =
      Distinct(program_.copies, copy, [](const program::Copy& a, const program::Copy& b) {
        return a.direction == b.direction && a.bytes == b.bytes;
      });
  Use(uses);
  Operate(Opcode::kCopy, stream, index);
}

}  // namespace stepcast::lowering
