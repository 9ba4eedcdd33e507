#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"

// What `sweep` shows, one row per combination in the grid's order. `rows` has the grid's length.
namespace stepcast::report {

// A table for people, with the fastest combination that fits below it.
std::string SweepText(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows);

// A heading line of the varied keys and the columns of the JSON rows; fields without a value (an
// illegal combination has no figures) are empty.
std::string SweepCsv(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows);

// The document of `sweep --json`, version 1. Everything but its last key, `run`, depends on the
// input alone; `seconds` is the wall-clock time of the run, `known` how many rows were in a store.
std::string SweepJson(const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      double seconds, std::int64_t known = 0);

// The rows of that document, one a line, and nothing else: it depends on the input alone.
std::string SweepJsonLines(const planner::SweepGrid& grid,
                           const std::vector<planner::SweepRow>& rows);

// Why a row has no figures, or that it does not fit and by how much; empty for `ok`.
std::string Reason(const planner::SweepRow& row);

// The first of the fastest rows that fit.
std::optional<std::int64_t> Fastest(const std::vector<planner::SweepRow>& rows);

}  // namespace stepcast::report
