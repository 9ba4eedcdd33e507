#pragma once

#include "src/foreign/framework.h"

namespace stepcast::foreign {

// torchtitan's job configuration as its releases before 23 February 2026 read it: TOML
// (pytorch/torchtitan, torchtitan/config/job_config.py; commit 9810191bb replaced the files by
// Python).
extern const Framework kTorchtitan;

// The same of its present releases: keyword arguments of a function in a config_registry.py
// (pytorch/torchtitan, torchtitan/config/training.py, parallelism.py, compile.py).
extern const Framework kTorchtitanPython;

// Whether settings of a TOML or Python file are torchtitan's.
bool IsTorchtitan(const Document& document);

}  // namespace stepcast::foreign
