#pragma once

#include <memory>
#include <vector>

#include "src/forecast/throughput.h"
#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The work of a micro-batch of a scenario: the same for many plans, so the last few are cached.
class WorkCache {
 public:
  struct Work {
    std::vector<model::LayerWork> layers;  // model::BuildWork
    MicroBatchFlops flops;
  };

  // Stays as long as it is referenced.
  std::shared_ptr<const Work> Of(const scenario::Scenario& scenario);

 private:
  struct Entry {
    std::shared_ptr<const model::Model> model;
    model::WorkOptions options;
    std::shared_ptr<const Work> work;
  };
  static constexpr std::size_t kMostEntries = 16;

  std::vector<Entry> entries_;
};

}  // namespace stepcast::forecast
