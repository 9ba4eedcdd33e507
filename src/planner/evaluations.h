#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/planner/result_store.h"
#include "src/planner/workforce.h"
#include "tl/expected.hpp"

// Evaluates combinations of settings: those that a store knows are taken from there, the others are
// worked out and stored.
namespace stepcast::planner {

// Keys of the scenario and the values they are set to.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Settings as one text, a line for each ("training.micro_batch_size=2"), and back: what work items
// and a store's keys are. Equal settings in equal order give equal text.
std::string ToText(const Settings& settings);
Settings ToSettings(const std::string& text);

struct EvaluationList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // What the store knows an item's result by; null: the item.
  std::function<std::string(std::int64_t index)> key{};
  // For each item once, in any order, never from two threads at once. False: enough.
  std::function<bool(std::int64_t index, const std::string& result)> done;
  // Called when those that the store knows are done, with their number; may be empty.
  std::function<void(std::int64_t known)> begun;
};

// `store` may be null. Returns when all is done (and stored), or `done` has had enough. The error
// is a sentence: the store cannot be written, ranks cannot be reached.
tl::expected<void, std::string> Evaluate(const EvaluationList& list, Workforce& workforce,
                                         ResultStore* store);

}  // namespace stepcast::planner
