#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// The most values that a file's names may stand for.
inline constexpr std::size_t kMostPythonValues = 1'000'000;

inline constexpr std::string_view kUnderCondition = " under a condition";

// The configuration that a function of a Python file returns, without executing anything: calls
// with keyword arguments become dotted names, `training=TrainingConfig(steps=10)` is
// "training.steps"; the name of what is called is the value of "training", and arguments without a
// keyword are "training.0". Names of local variables and calls of the file's own functions are
// followed, sums and products of numbers are computed; assignments below what a call returned,
// `config.training.steps = 5`, change it. Anything else is an expression, which is no value.
//
// The function is the one of that name, or, where none is named, the only one that returns a call.
// One that returns none is read where it calls a recipe (recipes.h) and changes what that returned;
// what stands outside functions is the function "module", and below `if __name__` "__main__". The
// setting "recipe" is then the recipe's name. An assignment below an `if` or a loop is a setting
// with kUnderCondition behind its name. The setting "function" is its name. Mistakes:
// foreign.missing, which names all that there are; foreign.syntax, where brackets or quotes are not
// closed.
Result<Document> ParsePythonSettings(std::string_view text, const std::string& file,
                                     const std::string& function);

}  // namespace stepcast::foreign
