#pragma once

#include <cstdint>
#include <optional>

#include "src/base/data_type.h"
#include "src/model/expert_parallel.h"

// The section `experts` of a scenario: how a framework runs the experts of a mixture. settings.h
// has keys, values and documentation. The experts are divided among `parallelism.expert` ranks.
namespace stepcast::plan {

struct Mixture {
  model::Dispatcher dispatcher = model::Dispatcher::kAllToAll;
  model::ExpertImplementation implementation = model::ExpertImplementation::kMegatron;
  model::ExpertProducts products = model::ExpertProducts::kGrouped;
  DataType dispatch_dtype = DataType::kBf16;  // type of rows that are sent to experts
  DataType router_dtype = DataType::kBf16;
  // The largest number of nodes to which one token may be routed. 0: no limit.
  std::int64_t node_limit = 0;
  bool fused_router = true;
  bool fused_permutation = true;
  bool fused_rows = false;
  // The largest number of rows on a rank, divided by the mean over ranks.
  double imbalance = 1;
  // The capacity of an expert, divided by the mean number of rows of an expert. Rows beyond the
  // capacity are dropped. With pad_to_capacity, every expert pads its rows to the capacity.
  std::optional<double> capacity_factor{};
  bool pad_to_capacity = false;
  // The smallest capacity of an expert, in rows per sending rank. Only for DeepSpeed's layer.
  std::int64_t min_capacity = 4;
  // `overlap_communication`: the forward of one micro-batch alternates with the backward of
  // another, so that exchanges of one pass overlap kernels of the other (parallel::Combined).
  // `delay_weight_gradients`: weight gradients run after exchanges that do not need them.
  bool overlap_communication = false;
  bool delay_weight_gradients = false;
  // Whether shared experts run on a separate stream while ranks exchange rows.
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
