#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/scenario/scenario.h"
#include "src/topology/cluster.h"

// Scenarios for invariants: a layer list on a flat cluster with a ring, `framework: reference`.
namespace stepcast {

struct TestLayer {
  std::vector<std::int64_t> parameters;  // elements, bf16
  Time forward, backward;
};

struct TestLink {
  int devices = 2;
  Time latency;
  Bandwidth bandwidth;
};

inline model::LayerList ListOf(const std::vector<TestLayer>& layers, Time optimizer_step) {
  model::LayerList list;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    list.layers.push_back({.name = "layer" + std::to_string(i),
                           .repeat = 1,
                           .parameters = layers[i].parameters,
                           .forward = layers[i].forward,
                           .backward = layers[i].backward,
                           .activation = Bytes(0)});
  }
  list.optimizer_step = optimizer_step;
  return list;
}

inline scenario::Scenario FlatScenario(const model::LayerList& list, const TestLink& link) {
  scenario::Scenario scenario;
  scenario.name = "law";
  scenario.model = std::make_shared<const model::Model>(model::Build("list", list));
  topology::FlatCluster flat;
  flat.devices = link.devices;
  flat.memory = GiB(1 << 20);
  flat.link = topology::LinkSpec{.latency = link.latency, .bandwidth = link.bandwidth};
  scenario.cluster = std::make_shared<const topology::Cluster>(flat);
  scenario.calibration = std::make_shared<const calibration::Calibration>();
  scenario.algorithm = scenario::CollectiveAlgorithm::kRing;
  plan::Plan& plan = scenario.plan;
  plan.training.sequence_length = 1;
  plan.training.micro_batch_size = 1;
  plan.training.global_batch_size = link.devices;
  plan.parallelism.data = link.devices;
  plan.data_parallel.shard_group_size = link.devices;
  plan.data_parallel.framework = plan::Framework::kReference;
  return scenario;
}

}  // namespace stepcast
