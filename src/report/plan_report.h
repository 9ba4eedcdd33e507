#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/planner/search.h"
#include "src/planner/sensitivity.h"
#include "src/scenario/scenario.h"

// What `plan` shows.
namespace stepcast::report {

// A plan that is shown, with what it is made of.
struct PlanRow {
  std::int64_t plan = 0;
  std::vector<std::pair<std::string, std::string>> settings;  // overrides of the scenario
  plan::Plan values;
  planner::PlanFacts facts;
  planner::Outcome outcome;  // of a simulated plan
  bool simulated = true;
  planner::Fate fate = planner::Fate::kSimulated;
  planner::Bound bound;
  // Of a ranked plan: how many others are as good (planner::AsGood), and the settings that tell
  // them from it, with all values that make no difference, its own first.
  std::int64_t as_good = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> no_difference;
};

struct PlanReport {
  std::string name;  // the scenario's
  planner::Goal goal;
  std::int64_t space = 0;
  const planner::SearchResult* result = nullptr;
  std::vector<PlanRow> best, pareto, nearest;
  std::vector<PlanRow> losers;  // where asked for
  std::optional<planner::Sensitivity> sensitivity;
  std::optional<PlanRow> with_more_memory;
  std::vector<std::string> notes;  // what was asked for and is of no effect somewhere
  double seconds = 0;
};

// "the shortest step"; "the least time for a token" where steps have unequal tokens
std::string TargetText(const planner::Goal& goal, bool unequal_tokens);
// Every way in which plans ended and how many did, "cannot exist" and so on; together all of them.
std::vector<std::pair<std::string, std::int64_t>> WhatBecame(const PlanReport& report);

// Why a simulated plan is no answer; empty where it is one.
std::string Reason(const planner::Goal& goal, const PlanRow& row);

std::string PlanText(const PlanReport& report);
// The best, the front and the nearest misses, one record each, first field which list.
std::string PlanCsv(const PlanReport& report);
// The document of `plan --json`, version 1. Everything but its last key, `run`, depends on the
// input alone.
std::string PlanJson(const PlanReport& report);

}  // namespace stepcast::report
