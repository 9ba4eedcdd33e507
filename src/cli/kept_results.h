#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/kept_note.h"
#include "src/cli/outcome.h"
#include "src/planner/result_store.h"

namespace stepcast::cli {

// The store that --store names, if it does, and what is said of it.
class KeptResults {
 public:
  // `facts`: what its results depend on, asked for if there is a store. `what` it keeps: "of 400
  // combinations", "bounds and forecasts". An outcome is a failure.
  std::optional<Outcome> Open(const std::string& path,
                              const std::function<std::vector<planner::StoreFact>()>& facts,
                              const std::string& what);

  planner::ResultStore* store() const { return store_.get(); }  // null: none is asked for

  // "120 of 400 combinations are kept in 'F': the same command goes on from there", as a line;
  // nothing without a store, or where it is damaged.
  std::string HowToGoOn() const;
  // "120 of 400 combinations were in 'F'", as a line; nothing where `known` is 0.
  std::string WhatWasKnown(std::int64_t known) const;
  // Closes the store and, if it was not there before, removes its file: what is in it is of no use.
  void Drop();

 private:
  std::string path_;
  std::string what_;
  bool made_ = false;
  std::unique_ptr<planner::ResultStore> store_;
  std::optional<KeptNote> note_;
};

}  // namespace stepcast::cli
