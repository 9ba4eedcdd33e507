#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/parallel/axis.h"

// A model whose layer times are known, from a profile or a paper.
namespace stepcast::model {

// A collective within a layer, over the ranks along an axis.
struct ListedCommunication {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  parallel::AxisSet axis = parallel::Axis::kTensor;
  Bytes bytes{};  // as nccl-tests count
};

struct ListedLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::vector<std::int64_t> parameters;   // elements of each tensor, registration order
  Time forward;                           // one micro-batch
  Time backward;                          // the layer's gradients are ready at its end
  std::optional<Time> backward_weight{};  // the weights' part of `backward`; default half
  Bytes activation;                       // kept from forward to backward, one micro-batch
  Bytes output{};                         // handed to the next layer, one micro-batch
  // In order: n of them cut the pass into n + 1 equal parts, each of which needs what came before.
  std::vector<ListedCommunication> forward_communication{}, backward_communication{};
};

struct LayerList {
  std::vector<ListedLayer> layers;
  Time optimizer_step;  // all parameters on one device; a sharded update takes its share of it
};

}  // namespace stepcast::model
