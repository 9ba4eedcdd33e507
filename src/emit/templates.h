#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

// Emitted files with much fixed text are templates, which are embedded at build time.
namespace stepcast::emit {

// Returns the text of a template. `@NAME@` stands for a value. The lines after `%if NAME` are
// written only if the value NAME is not empty. The lines between `%else` and `%end` are written
// only if the value is empty or missing.
std::string Filled(std::string_view text,
                   const std::map<std::string, std::string, std::less<>>& values);

// Returns pytorch_module.txt: the module for ddp, fsdp1 and fsdp2.
std::string_view PytorchModule();

}  // namespace stepcast::emit
