#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/planner/result_store.h"
#include "src/planner/worker_pool.h"
#include "tl/expected.hpp"

// Evaluates combinations of settings: those that a store holds are taken from there, the others are
// computed and stored.
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
  // The store's key of an item's result; null: the item.
  std::function<std::string(std::int64_t index)> key{};
  // For each item once, in any order, never from two threads at once. False: enough.
  std::function<bool(std::int64_t index, const std::string& result)> done;
  // Called when the results from the store are done, with their number; may be empty.
  std::function<void(std::int64_t known)> begun;
};

// `store` may be null. Returns when all are done (and stored), or `done` has returned false. The
// error is a sentence: the store cannot be written, ranks cannot be reached.
tl::expected<void, std::string> Evaluate(const EvaluationList& list, WorkerPool& pool,
                                         ResultStore* store);

}  // namespace stepcast::planner
