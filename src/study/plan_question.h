#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/question.h"
#include "src/study/training_question.h"

namespace stepcast::planner {
struct SearchProgress;
}

namespace stepcast::study {

// The question of a search for plans, as text. Commands, `serve` and the libraries read the options
// that this type describes. A new option needs a member and a description here, and code in
// plan_search.cc.
struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"

  std::string target = "step_time";
  std::string framework;          // "all", "NAME,NAME"; empty: the frameworks searched by default
  std::string only;               // "data,tensor": axes that may exceed 1; empty: all
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  bool fewer_nodes = false;
  TrainingQuestion training;
  std::string headroom;  // memory that must stay free: "4 GiB", "5%", "0"; empty: the error of
                         // memory forecasts
  void DescribeGoal(Question& question) {
    question.Option("--target", &target, "NAME", "The goal of the search (default: step_time)")
        .Offers({"step_time", "throughput", "gpus", "cost", "memory", "days", "energy"});
    question.Option("--framework", &framework, "NAME,...",
                    "The frameworks to search (default: all except reference and nanotron)");
    question.Option(
        "--only", &only, "KIND,...",
        "The axes of parallelism to use: data, tensor, pipeline, context, expert (default: all)");
    question.Option("--vary", &vary, "KEY=VALUES",
                    "A setting, and the values that the search tries. Can be repeated");
    question.Option("--fix", &fix, "KEY",
                    "Do not vary a setting, but keep the value in the scenario. Can be repeated");
    question.Flag("--fewer-nodes", &fewer_nodes,
                  "Also try fewer GPUs: part of a node, and 1, 2, 4, 8, ... nodes (default with "
                  "--target gpus)");
    training.Describe(question);
    question.Option("--headroom", &headroom, "SIZE|PERCENT",
                    "Memory that must remain free on each device: '4 GiB', '5%' or 0 (default: the "
                    "error of memory forecasts, docs/uncertainty.md)");
  }

  // The number of plans to rank; 0: five. In a space of more than kMostPlansWithAll plans, only the
  // first plan is proved to be best; the others are the best simulated plans.
  int best = 0;
  // Whether to compute the Pareto front. If neither member is set, the front is computed only in
  // spaces of at most kMostPlansWithAll plans.
  bool front = false, no_front = false;
  std::string why;  // "5": number of runners-up to list; "tensor=8,pipeline=16": a layout to rank
  std::string within;  // "10s": time limit; empty: until the proof is complete
  // Whether to compute the effect of more resources and of neighboring settings on the best plan.
  // If neither member is set, the effect is computed only in spaces of at most kMostPlansWithAll
  // plans.
  bool sensitivity = false, no_sensitivity = false;
  void DescribeAnswer(Question& question) {
    constexpr int kMostRows = 1000;
    question
        .Option("--best", &best, "N",
                "Number of best plans to rank and prove (default: 5; in a search of more than "
                "20,000 plans, only the best plan is proved)")
        .Between(1, kMostRows);
    question.Flag("--front", &front,
                  "Find the Pareto front, even in a search of more than 20,000 plans, where the "
                  "front takes most of the time");
    question.Flag("--no-front", &no_front, "Omit the Pareto front");
    question.Option("--why", &why, "N|LAYOUT",
                    "Explain why the N plans after the best plans, or the plans of a layout "
                    "(tensor=8,pipeline=16), are not among the best");
    question.Option("--within", &within, "TIME",
                    "Stop after TIME (for example 10s), print the best plan so far, and list the "
                    "parts of the answer that are not proved");
    question.Flag("--sensitivity", &sensitivity,
                  "Forecast the effects of more resources and of other settings, even in a search "
                  "of more than 20,000 plans");
    question.Flag("--no-sensitivity", &no_sensitivity,
                  "Omit the forecasts of the effects of more resources and of other settings");
  }

  int threads = 0;      // threads per process; 0: one per usable core
  std::string folder;   // folder for the best plan; empty: the plan is not written
  bool force = false;   // replaces the plan in the folder
  bool try_own = true;  // start with the scenario's own plan
  // Receives the progress of the search. Never called from two threads at once. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

}  // namespace stepcast::study
