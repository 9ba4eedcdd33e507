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
// and its effect in plan_search.cc. Commands, `serve` and the libraries read the row.
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
    question.Option("--target", &target, "NAME")
        .Offers({"step_time", "throughput", "gpus", "cost", "memory"});
    question.Option("--framework", &framework, "NAME,...");
    question.Option("--only", &only, "KIND,...");
    question.Option("--vary", &vary, "KEY=VALUES");
    question.Option("--fix", &fix, "KEY");
    question.Flag("--fewer-nodes", &fewer_nodes);
    training.Describe(question);
    question.Option("--headroom", &headroom, "SIZE|PERCENT");
  }

  // The number of plans to rank; 0 means five. In a space of more than kMostPlansWithAll plans only
  // the first of these is proved; the others are the best simulated plans.
  int best = 0;
  // Whether to find the Pareto front, or not. If neither is set, it is found in spaces of at most
  // kMostPlansWithAll plans.
  bool front = false, no_front = false;
  std::string why;  // "5": number of runners-up to list; "tensor=8,pipeline=16": a layout to rank
  std::string within;  // "10s": time limit; empty: until the proof is complete
  // Whether to find the changes that would improve the best plan, or not. If neither is set, they
  // are found in spaces of at most kMostPlansWithAll plans.
  bool sensitivity = false, no_sensitivity = false;
  void DescribeAnswer(Question& question) {
    constexpr int kMostRows = 1000;
    question.Option("--best", &best, "N").Between(1, kMostRows);
    question.Flag("--front", &front);
    question.Flag("--no-front", &no_front);
    question.Option("--why", &why, "N|LAYOUT");
    question.Option("--within", &within, "TIME");
    question.Flag("--sensitivity", &sensitivity);
    question.Flag("--no-sensitivity", &no_sensitivity);
  }

  int threads = 0;      // per process; 0: one per usable core
  std::string folder;   // where the best plan is written; empty: nowhere
  bool force = false;   // replaces the plan in the folder
  bool try_own = true;  // start with the scenario's own plan
  // Receives the progress of the search. Never called from two threads at once. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

}  // namespace stepcast::study
