#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/transformer_tensors.h"

namespace stepcast::model {

// A list of parameters of one architecture. With adapters, only the parameters of the adapters are
// trained.
class ParameterList {
 public:
  using Of = ModuleParameter::Of;
  using Shape = std::vector<std::int64_t>;

  // `architecture` must outlive this object.
  explicit ParameterList(const Architecture& architecture) : a_(architecture) {}

  // Adds a parameter that every rank has in full and applies to all tokens.
  void AddCopied(std::string_view module, Shape shape, Of of = Of::kWeight, bool direct = false) {
    Add(module, of, std::move(shape), {}, false, direct);
  }
  // Adds the weight and the bias of a linear layer that every rank has in full.
  void AddCopiedLinear(std::string_view module, std::int64_t in, std::int64_t out) {
    AddCopied(module, {out, in});
    AddCopied(module, {out}, Of::kBias);
  }
  // Adds a parameter that every rank has in full. Each rank applies the parameter to its part of
  // the tokens or, before the divided layers, to all tokens.
  void AddWhole(std::string_view module, Shape shape, Of of = Of::kWeight, bool direct = false) {
    Add(module, of, std::move(shape), {}, true, direct);
  }
  // Adds a parameter that tensor parallelism divides along a dimension.
  void AddDivided(std::string_view module, Shape shape, Of of = Of::kWeight, bool direct = false,
                  int dimension = 0) {
    Add(module, of, std::move(shape), {{.axis = parallel::Axis::kTensor, .dimension = dimension}},
        false, direct);
  }
  void Append(std::vector<ModuleParameter> more) {
    for (ModuleParameter& parameter : more) list_.push_back(std::move(parameter));
  }

  const Architecture& architecture() const { return a_; }
  std::vector<ModuleParameter>& list() { return list_; }
  std::vector<ModuleParameter> Take() { return std::move(list_); }

 protected:
  void Add(std::string_view module, Of of, Shape shape, std::vector<Split> splits,
           bool sequence_parallel, bool direct, ParameterGroup group = ParameterGroup::kDense) {
    list_.push_back({module, of, std::move(shape), std::move(splits), sequence_parallel,
                     a_.lora.adapts(), group, direct});
  }

  const Architecture& a_;

 private:
  std::vector<ModuleParameter> list_;
};

}  // namespace stepcast::model
