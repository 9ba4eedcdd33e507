#pragma once

#include <cstdint>
#include <optional>

#include "src/base/data_type.h"
#include "src/model/expert_parallel.h"

// The section `experts`: how a framework runs the experts of a mixture. Keys, values and
// documentation are rows of settings.h. How many ranks share the experts out is
// `parallelism.expert`.
namespace stepcast::plan {

struct Mixture {
  model::Dispatcher dispatcher = model::Dispatcher::kAllToAll;
  model::ExpertImplementation implementation = model::ExpertImplementation::kMegatron;
  model::ExpertProducts products = model::ExpertProducts::kGrouped;
  DataType dispatch_dtype = DataType::kBf16;  // of rows on their way to experts
  DataType router_dtype = DataType::kBf16;
  // A token's experts are on so many nodes at most; 0: on any.
  std::int64_t node_limit = 0;
  bool fused_router = true;
  bool fused_permutation = true;
  bool fused_rows = false;
  // Rows that the experts of the rank with most of them get, over the mean of all ranks.
  double imbalance = 1;
  // An expert takes so many times the mean of its rows at most, and drops the others; and always
  // has room for as many, which it computes whether or not they are there.
  std::optional<double> capacity_factor{};
  bool pad_to_capacity = false;
  // With DeepSpeed's layer an expert has room for so many of each rank's rows at least.
  std::int64_t min_capacity = 4;
  // Forward and backward of two micro-batches run in turns, so that the exchanges of the one run
  // beside the kernels of the other (parallel::Combined); and products of weights' gradients are
  // put behind the exchanges that do not need them.
  bool overlap_communication = false;
  bool delay_weight_gradients = false;
  // Shared experts run beside the exchanges, on a stream of their own.
  bool overlap_shared_experts = false;
  friend bool operator==(const Mixture&, const Mixture&) = default;
};

struct MixtureRequest {
  std::optional<model::Dispatcher> dispatcher;
  std::optional<model::ExpertImplementation> expert_implementation;
  std::optional<model::ExpertProducts> expert_products;
  std::optional<DataType> dispatch_dtype;
  std::optional<DataType> router_dtype;
  std::optional<bool> fused_router;
  std::optional<bool> fused_permutation;
  std::optional<bool> fused_rows;
  std::optional<std::int64_t> node_limit;
  std::optional<double> imbalance;
  std::optional<double> capacity_factor;
  std::optional<bool> pad_to_capacity;
  std::optional<std::int64_t> min_capacity;
  std::optional<bool> overlap_communication;
  std::optional<bool> delay_weight_gradients;
  std::optional<bool> overlap_shared_experts;
};

}  // namespace stepcast::plan
