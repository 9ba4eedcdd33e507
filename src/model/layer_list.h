#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"

// A model whose layer times are known, from a profile or a paper.
namespace stepcast::model {

struct ListedLayer {
  std::string name;
  std::int64_t repeat = 1;
  std::vector<std::int64_t> parameters;  // elements of each tensor, registration order
  Time forward;                          // one micro-batch
  Time backward;                         // the layer's gradients are ready at its end
  Bytes activation;                      // kept from forward to backward, one micro-batch
  Bytes output{};                        // handed to the next layer, one micro-batch
};

struct LayerList {
  std::vector<ListedLayer> layers;
  Time optimizer_step;  // all parameters on one device; a sharded update takes its share of it
};

}  // namespace stepcast::model
