#pragma once

#include <cstdint>

#include "src/model/model.h"

namespace stepcast::model {

// The parameters that the computation of one token takes: all of a dense model's; of a mixture's
// experts as many as a token takes, besides the routers and what all tokens take.
struct ActiveParameters {
  std::int64_t all = 0;
  // Of the input embedding a token takes one row. A table that the head uses, too, counts.
  std::int64_t without_input_embedding = 0;
};
ActiveParameters ActiveParametersOf(const Model& model);

}  // namespace stepcast::model
