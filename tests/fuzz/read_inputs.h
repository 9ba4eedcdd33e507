#pragma once

#include <string_view>

// Shared by the fuzz targets and the list of hostile inputs. Each function passes text through the
// whole reader of its format and checks everything that must hold for any text. A broken invariant
// ends the process.
namespace stepcast::fuzz {

// A comment line "#--set KEY=VALUE" is applied as an override. A scenario that loads must resolve
// to one that loads and resolves to itself.
void ReadScenario(std::string_view text);
void ReadModel(std::string_view text);
void ReadConfig(std::string_view text);    // Hugging Face's config.json
void ReadTopology(std::string_view text);  // and builds a small cluster of it
void ReadCalibration(std::string_view text);
// Other shipped YAML files: published steps, curves of collectives, data sheets of GPUs, host costs
// of frameworks.
void ReadMeasurements(std::string_view text);

// Imported data, written like the commands write it, must read back.
void ReadNcclTopology(std::string_view text);  // NCCL's XML
void ReadNvidiaSmi(std::string_view text);     // the matrix of nvidia-smi topo -m
void ReadNcclTests(std::string_view text);     // text and JSON
void ReadKineto(std::string_view text);        // a trace, possibly too large for a model

// Configurations of other programs; an imported scenario must be a valid document.
void ReadToml(std::string_view text);
void ReadShell(std::string_view text);
void ReadPython(std::string_view text);
void ReadForeignYaml(std::string_view text);  // and JSON

void ReadMeasuredMemory(std::string_view bytes);   // snapshots, summaries and timelines of PyTorch
void ReadPackedTrace(std::string_view bytes);      // gzip
void ReadSchedule(std::string_view text);          // CSV; the result is written and read back
void ReadRuns(std::string_view text);              // CSV of measured steps
void ReadStore(std::string_view bytes);            // the file of --store
void ReadQuestion(std::string_view line);          // of `stepcast serve`
void ReadCalibrationState(std::string_view text);  // the file of --resume; likewise

}  // namespace stepcast::fuzz
