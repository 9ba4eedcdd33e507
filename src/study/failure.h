#pragma once

#include <string>

#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

namespace stepcast::study {

// The reason why there is no answer: mistakes in the input, or a sentence that describes a failure.
struct Failure {
  Diagnostics mistakes;
  std::string reason;
};

template <typename T>
using Answer = tl::expected<T, Failure>;

inline tl::unexpected<Failure> WrongInput(Diagnostics mistakes) {
  return tl::unexpected(Failure{std::move(mistakes), ""});
}
inline tl::unexpected<Failure> Failed(std::string reason) {
  return tl::unexpected(Failure{{}, std::move(reason)});
}

}  // namespace stepcast::study
