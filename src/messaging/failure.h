#pragma once

#include <optional>
#include <string>

#include "src/program/operation_id.h"
#include "tl/expected.hpp"

namespace stepcast::messaging {

// Why ranks cannot go on: one sentence, naming the operation where there is one.
struct Failure {
  std::string message;
  bool out_of_memory = false;
  // From a device: the queued operation that failed, which `message` then does not name, where it
  // is not the one that the call was for.
  std::optional<program::OperationId> operation{};
};

template <typename T>
using Attempt = tl::expected<T, Failure>;

}  // namespace stepcast::messaging
