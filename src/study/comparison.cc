#include "src/study/comparison.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/forecast/warnings.h"
#include "src/scenario/load.h"

namespace stepcast::study {

Result<Comparison> Compare(const ComparisonQuestion& question) {
  scenario::InputCache cache;
  const auto load = [&](const std::string& file, const std::vector<std::string>& own,
                        const char* option) {
    std::vector<std::string> set = question.set;
    set.insert(set.end(), own.begin(), own.end());
    auto scenario = scenario::Load(file, set, cache);
    if (scenario) return scenario;
    Diagnostics faults = std::move(scenario.error());
    for (Diagnostic& fault : faults) {
      for (const std::string& text : own) {
        if (fault.location.file == "--set " + text) {
          fault.location.file = fmt::format("{} {}", option, text);
        }
      }
    }
    return Result<scenario::Scenario>(tl::unexpected(std::move(faults)));
  };
  auto a = load(question.a, question.set_a, "--set-a");
  auto b = load(question.b.empty() ? question.a : question.b, question.set_b, "--set-b");
  Diagnostics faults;
  if (!a) faults = a.error();
  if (!b) {
    std::copy_if(b.error().begin(), b.error().end(), std::back_inserter(faults),
                 [known = faults](const Diagnostic& fault) {
                   return std::none_of(known.begin(), known.end(), [&](const Diagnostic& other) {
                     return Format(other) == Format(fault);
                   });
                 });
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  auto of_a = forecast::FiguresOf(*a);
  if (!of_a) return tl::unexpected(std::move(of_a.error()));
  auto of_b = forecast::FiguresOf(*b);
  if (!of_b) return tl::unexpected(std::move(of_b.error()));
  forecast::WarnOfOptimizerStates(of_a->memory, *a);
  forecast::WarnOfOptimizerStates(of_b->memory, *b);
  return Comparison{*std::move(a), *std::move(b), *std::move(of_a), *std::move(of_b)};
}

}  // namespace stepcast::study
