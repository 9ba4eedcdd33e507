#include "src/cli/kept_results.h"

#include <limits.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/study/output_paths.h"

namespace stepcast::cli {

std::optional<Outcome> KeptResults::Open(
    const std::string& path, const std::function<std::vector<planner::StoreFact>()>& facts,
    const std::string& what) {
  if (path.empty()) return std::nullopt;
  if (auto wrong = study::ReplacesInput(path)) return WrongInput({*std::move(wrong)});
  path_ = path;
  what_ = what;
  std::error_code error;
  made_ = !std::filesystem::exists(path, error);
  auto opened = planner::ResultStore::Open(path, facts());
  if (!opened) {
    const planner::StoreFault& fault = opened.error();
    return fault.wrong_input.empty() ? Failed(fault.failure) : WrongInput(fault.wrong_input);
  }
  store_ = *std::move(opened);
  note_.emplace(store_->kept(), what_, store_->path());
  return std::nullopt;
}

std::string KeptResults::HowToGoOn() const {
  if (!store_ || store_->damaged()) return "";
  return fmt::format("stepcast: {} {} are kept in {}: the same command goes on from there\n",
                     store_->kept().load(), what_, Quoted(path_, "'", PATH_MAX));
}

std::string KeptResults::WhatWasKnown(std::int64_t known) const {
  if (known == 0) return "";
  return fmt::format("{} {} were in {}\n", known, what_, Quoted(path_, "'", PATH_MAX));
}

void KeptResults::Drop() {
  note_.reset();
  store_.reset();
  std::error_code error;
  if (made_) std::filesystem::remove(path_, error);
}

}  // namespace stepcast::cli
