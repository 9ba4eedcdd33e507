#pragma once

#include <string_view>

// What the fuzz targets and the list of hostile inputs have in common: text goes through the whole
// reader of its format, and everything that must hold for any text is checked. A broken law ends
// the process.
namespace stepcast::fuzz {

// A comment line "#--set KEY=VALUE" is applied as an override. A scenario that loads must resolve
// to one that loads and resolves to itself.
void ReadScenario(std::string_view text);
void ReadModel(std::string_view text);     // YAML; as a Hugging Face config.json, too
void ReadTopology(std::string_view text);  // and builds a small cluster of it
void ReadCalibration(std::string_view text);

// What is imported, written down as the commands do it, reads back.
void ReadNcclTopology(std::string_view text);  // NCCL's XML
void ReadNvidiaSmi(std::string_view text);     // the matrix of nvidia-smi topo -m
void ReadNcclTests(std::string_view text);     // text and JSON
void ReadKineto(std::string_view text);        // a trace; may be beyond what models may be

// As a configuration of another program, in each syntax that is read: what becomes a scenario is
// a document.
void ReadForeign(std::string_view text);

}  // namespace stepcast::fuzz
