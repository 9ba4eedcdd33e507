#include "src/model/adapter_operators.h"

#include <cstddef>
#include <utility>

namespace stepcast::model {
namespace {

WorkOptions OfTokens(WorkOptions options) {
  options.compute = ActivationType(options.compute);
  options.tensor_overlap = TensorOverlap::kNone;
  options.regathers = false;
  options.adds_up_parts = false;
  return options;
}

WorkOptions OfProducts(WorkOptions options) {
  options = OfTokens(options);
  options.sequence_parallel = false;
  return options;
}

}  // namespace

AdapterOperators::AdapterOperators(const WorkOptions& options, const Lora& lora, LayerTape& tape)
    : options_(options),
      lora_(lora),
      products_(OfProducts(options), tape),
      tokens_(OfTokens(options), tape) {}

std::string_view AdapterOperators::Name(const AdapterModule& adapter, std::string_view suffix) {
  std::string& name = names_.emplace_back(adapter.name);
  name += suffix;
  return name;
}

Operand AdapterOperators::Dropped(const Operand& x, const AdapterModule& adapter) {
  return lora_.dropout > 0 ? products_.Dropout(x, Name(adapter, ".lora_dropout")) : x;
}

std::vector<Operand> AdapterOperators::AddColumns(const Operand& x, const Operand& whole,
                                                  const AdapterModule& adapter,
                                                  std::vector<Operand> ys) {
  const bool divided = options_.tensor > 1;
  Operand taken = x;
  if (divided && !options_.sequence_parallel) {
    taken = products_.EnterColumns(x, adapter.name);
  } else if (divided && options_.tensor_overlap != TensorOverlap::kNone) {
    taken = tokens_.EnterColumns(x, adapter.name);  // no piece of it lies together elsewhere
  } else if (divided) {
    taken = whole;  // whose gradients are added up before they are scattered
    taken.region = nullptr;
  }
  taken = Dropped(taken, adapter);
  Operand low =
      products_.Linear(taken, Name(adapter, ".lora_A"), lora_.rank / options_.tensor, adapter.a);
  if (divided) {
    low = products_.GatherFeatures(low, Name(adapter, ".lora_A"));
    low = products_.EnterColumns(low, adapter.name);
  }
  std::vector<LinearModule> parts;
  const std::string_view name = Name(adapter, ".lora_B");
  for (const Operand& y : ys) {
    parts.push_back({name, y.width, parts.empty() ? adapter.b : ModulePositions()});
  }
  const std::vector<Operand> made = products_.Linears(low, name, parts, Outputs::kSideBySide);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const Operand scaled = products_.Scale(made[i], Name(adapter, ".lora_scale"));
    ys[i] = products_.Add(ys[i], scaled, Name(adapter, ".lora_add"));
  }
  return ys;
}

Operand AdapterOperators::AddRows(const Operand& x, const AdapterModule& adapter,
                                  const Operand& y) {
  const bool divided = options_.tensor > 1;
  Operand low =
      products_.Linear(Dropped(x, adapter), Name(adapter, ".lora_A"), lora_.rank, adapter.a);
  if (divided) low = products_.EnterColumns(products_.AddUp(low), adapter.name);
  Operand made =
      products_.Linear(low, Name(adapter, ".lora_B"), y.width / options_.tensor, adapter.b);
  if (divided && options_.sequence_parallel && lora_.all_to_all) {
    made = products_.FeaturesToTokens(made, Name(adapter, ".lora_B"));
  } else if (divided) {
    made = products_.GatherFeatures(made, Name(adapter, ".lora_B"));
    made = tokens_.PartOfTokens(made, Name(adapter, ".lora_B"));
  }
  made = products_.Scale(made, Name(adapter, ".lora_scale"));
  return products_.Add(y, made, Name(adapter, ".lora_add"));
}

}  // namespace stepcast::model
