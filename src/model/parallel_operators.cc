#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/model/column_region.h"
#include "src/model/layer_operators.h"
#include "src/parallel/axis.h"

// Where tensor parallelism enters and leaves the operators of a layer.
namespace stepcast::model {
namespace {

using Value = LayerTape::Value;

constexpr parallel::AxisSet kTensor = parallel::Axis::kTensor;
constexpr std::int64_t kFp32Size = 4;

std::string Joined(std::string_view module, std::string_view suffix) {
  std::string name(module);
  name += suffix;
  return name;
}

}  // namespace

Operand LayerOperators::EnterColumns(Operand x) {
  if (options_.tensor == 1) return x;
  const auto region = std::make_shared<ColumnRegion>();
  if (!options_.sequence_parallel) {
    Operand whole = x;
    whole.value = tape_->Alias(x.value);
    whole.region = region;
    region->kept = x.value;
    region->begin_backward = [] {};
    tape_->OnBackward([=, this] {
      const Value gradient = tape_->GradientOf(whole.value);
      tape_->CommunicateBackward(CollectiveKind::kAllReduce, kTensor, element_, gradient, gradient);
      for (const auto& weight_gradients : region->weight_gradients) weight_gradients(std::nullopt);
      tape_->Deliver(x.value, gradient);
    });
    return whole;
  }
  Operand whole = Make("gathered", x.width, x.tokens * options_.tensor);
  whole.region = region;
  tape_->Communicate(CollectiveKind::kAllGather, kTensor, element_, x.value, whole.value);
  region->kept = options_.regathers ? x.value : whole.value;
  const Bytes bytes = Size(whole);
  region->begin_backward = [=, this, &options = options_] {
    if (!options.regathers || region->gathered) return;
    region->gathered = tape_->MakeScratch(bytes);
    tape_->CommunicateBackward(CollectiveKind::kAllGather, kTensor, element_, x.value,
                               *region->gathered);
  };
  tape_->OnBackward([=, this, value = whole.value] {
    const Value part = tape_->MakeGradient(x.value);
    tape_->CommunicateBackward(CollectiveKind::kReduceScatter, kTensor, element_,
                               tape_->GradientOf(value), part);
    for (const auto& weight_gradients : region->weight_gradients) {
      weight_gradients(region->gathered);
    }
    tape_->Deliver(x.value, part);
  });
  return whole;
}

Operand LayerOperators::LeaveRows(Operand x, std::string_view module, ModulePositions parameters) {
  if (options_.tensor == 1) return x;
  Operand sum = x;
  if (options_.sequence_parallel) {
    sum = Make(Joined(module, " output's part"), x.width, x.tokens / options_.tensor);
    tape_->Communicate(CollectiveKind::kReduceScatter, kTensor, element_, x.value, sum.value);
  } else {
    AddUp(x);
  }
  tape_->OnBackward([=, this] {
    const Value gradient = tape_->GradientOf(sum.value);
    if (options_.sequence_parallel) {
      const Value whole = tape_->MakeGradient(x.value);
      tape_->CommunicateBackward(CollectiveKind::kAllGather, kTensor, element_, gradient, whole);
      tape_->Deliver(x.value, whole);
    }
    if (parameters.bias < 0) return;
    RunPartGradients(
        Memory(Joined(module, ".bias.grad"), Elements(sum), Size(sum), BytesOfElements(sum.width)),
        {gradient}, {parameters.bias}, parameters);
  });
  return sum;
}

Operand LayerOperators::AddUp(Operand x) {
  if (options_.tensor > 1) {
    tape_->Communicate(CollectiveKind::kAllReduce, kTensor, element_, x.value, x.value);
  }
  return x;
}

void LayerOperators::RunPartGradients(Kernel kernel, LayerTape::Values reads,
                                      std::vector<int> gradients,
                                      const ModulePositions& parameters) {
  if (!options_.adds_up_parts) {
    tape_->RunBackward(std::move(kernel), reads, {}, std::move(gradients), parameters.all());
    return;
  }
  const Bytes bytes = kernel.written;
  const Value made = tape_->MakeScratch(bytes);
  const std::string name = Joined(kernel.name, ".add");
  tape_->RunBackward(std::move(kernel), reads, {made}, {}, parameters.all());
  sums_of_parts_.push_back([=, this, gradients = std::move(gradients)] {
    tape_->CommunicateBackward(CollectiveKind::kAllReduce, kTensor, element_, made, made);
    tape_->RunBackward(Memory(name, 0, bytes, bytes), {made}, {}, gradients, parameters.all());
  });
}

void LayerOperators::AddUpParts() {
  if (!options_.adds_up_parts) return;
  tape_->OnBackward([this] {
    for (const auto& add_up : sums_of_parts_) add_up();
  });
}

Operand LayerOperators::PartOfTokens(Operand x, std::string_view module) {
  if (!options_.sequence_parallel) return x;
  const Operand part = Make(Joined(module, ".part output"), x.width, x.tokens / options_.tensor);
  tape_->Run(Memory(Joined(module, ".part"), 0, Size(part), Size(part)), {x.value}, {part.value});
  tape_->OnBackward([=, this] {
    const Value whole = tape_->MakeGradient(x.value);
    tape_->CommunicateBackward(CollectiveKind::kAllGather, kTensor, element_,
                               tape_->GradientOf(part.value), whole);
    tape_->Deliver(x.value, whole);
  });
  return part;
}

std::optional<Value> LayerOperators::AgreedRows(Kernel kernel, Value from, std::string name,
                                                std::int64_t numbers) {
  if (options_.tensor == 1) {
    tape_->Run(std::move(kernel), {from}, {});
    return std::nullopt;
  }
  const Value rows = tape_->Make(std::move(name), Bytes(tokens_ * numbers * kFp32Size));
  tape_->Run(std::move(kernel), {from}, {rows});
  tape_->Communicate(CollectiveKind::kAllReduce, kTensor, DataType::kFp32, rows, rows);
  return rows;
}

}  // namespace stepcast::model
