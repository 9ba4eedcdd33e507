#include "src/runtime/cuda/collective_operands.h"

#include <algorithm>

#include "src/program/collective_parts.h"
#include "src/runtime/cuda/launch_plan.h"

namespace stepcast::runtime::cuda {
namespace {

void Convert(CollectiveOperands::Conversions& conversions, TypePair types, void* target,
             const void* source, std::int64_t elements) {
  auto found = std::find_if(conversions.begin(), conversions.end(),
                            [&](const auto& entry) { return entry.first == types; });
  if (found == conversions.end()) found = conversions.insert(conversions.end(), {types, {}});
  found->second.push_back(
      {.target = target, .source = source, .elements = elements, .block = elements});
}

}  // namespace

CollectiveOperands OperandsOf(const program::Collective& collective, std::int64_t ranks,
                              std::span<const program::Effect> effects,
                              const std::function<std::byte*(const program::Elements&)>& at,
                              std::byte* staging) {
  const DataType type = collective.data_type;
  const auto take = [&](std::int64_t elements) {
    std::byte* const taken = staging;
    staging += AlignedInArena(BytesOf(elements, type)).count();
    return taken;
  };
  CollectiveOperands operands;
  for (const program::Effect& effect : effects) {
    if (effect.kind != program::EffectKind::kCollective) continue;
    CollectiveOperands::Part part{
        .elements = effect.elements, .source = at(effect.source), .target = at(effect.target)};
    const program::CollectiveParts counts =
        program::PartsOf(collective.kind, effect.elements, ranks);
    if (effect.source.type != type) {
      std::byte* staged = take(counts.sent);
      Convert(operands.before, {type, effect.source.type}, staged, part.source, counts.sent);
      part.source = staged;
    }
    if (effect.target.type != type) {
      std::byte* staged = take(counts.received);
      Convert(operands.after, {effect.target.type, type}, part.target, staged, counts.received);
      part.target = staged;
    }
    operands.parts.push_back(part);
  }
  return operands;
}

}  // namespace stepcast::runtime::cuda
