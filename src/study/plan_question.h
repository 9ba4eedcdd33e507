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

// The question of a search for plans, as text. To add a setting, write its member and its row here,
// and its effect in plan_search.cc. Commands, `serve` and the libraries take it from the row.
struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"

  std::string target = "step_time";
  std::string framework;          // "all", "NAME,NAME"; empty: those searched by default
  std::string only;               // "data,tensor": axes that may exceed 1; empty: all
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  bool fewer_nodes = false;
  TrainingQuestion training;
  std::string headroom;  // memory that must stay free: "4 GiB", "5%", "0";
                         // empty: the error of memory forecasts
  void DescribeGoal(Question& question) {
    question
        .Option("--target", &target, "NAME",
                "The goal of the search: the figure in which the "
                "best plan is best (step_time)")
        .Offers({"step_time", "throughput", "gpus", "cost", "memory"});
    question.Option("--framework", &framework, "NAME,...",
                    "Frameworks to search (all except reference and nanotron)");
    question.Option(
        "--only", &only, "KIND,...",
        "Kinds of parallelism to search: data, tensor, pipeline, context, expert (all)");
    question.Option("--vary", &vary, "KEY=VALUES", "Values of a setting to try; can be repeated");
    question.Option("--fix", &fix, "KEY", "A setting that keeps the scenario's value");
    question.Flag("--fewer-nodes", &fewer_nodes,
                  "Also try parts of a node, and powers of two of nodes (target gpus always does)");
    training.Describe(question);
    question.Option(
        "--headroom", &headroom, "SIZE|PERCENT",
        "Memory that must stay free on each device, in addition to the plan's: '4 GiB', '5%', 0 "
        "(the error of memory forecasts, see docs/uncertainty.md)");
  }

  // Number of plans to rank. 0: five. In a space of more than kMostPlansWithAll plans only the
  // first of them is proved; the others are the best simulated ones.
  int best = 0;
  // Whether to find the Pareto front. If neither is set: in spaces of at most kMostPlansWithAll
  // plans.
  bool front = false, no_front = false;
  std::string why;  // "5": number of runners-up to list; "tensor=8,pipeline=16": a layout to rank
  std::string within;  // "10s": time limit; empty: until the proof is complete
  // Likewise, for the changes that would improve the best plan.
  bool sensitivity = false, no_sensitivity = false;
  void DescribeAnswer(Question& question) {
    constexpr int kMostRows = 1000;
    question
        .Option(
            "--best", &best, "N",
            "Number of plans to rank and prove (5; among more than 20,000 plans, only the first "
            "is proved)")
        .Between(1, kMostRows);
    question.Flag("--front", &front,
                  "Find the Pareto front also among more than 20,000 plans; this takes most of "
                  "the time");
    question.Flag("--no-front", &no_front, "Do not find the Pareto front");
    question.Option("--why", &why, "N|LAYOUT",
                    "List N runners-up, or the rank of a layout (tensor=8,pipeline=16), with the "
                    "reasons");
    question.Option("--within", &within, "TIME",
                    "Stop after TIME (10s) with the best plans so far, and state what is not "
                    "proved");
    question.Flag("--sensitivity", &sensitivity,
                  "Find the changes that would improve the best plan also among more than 20,000 "
                  "plans");
    question.Flag("--no-sensitivity", &no_sensitivity,
                  "Do not find the effects of more of each resource and of other settings");
  }

  int threads = 0;      // per process; 0: one per usable core
  std::string folder;   // where the best plan is written; empty: nowhere
  bool force = false;   // replaces the plan in the folder
  bool try_own = true;  // start with the scenario's own plan
  // Receives the progress of the search, from one thread at a time. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

}  // namespace stepcast::study
