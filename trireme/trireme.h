#pragma once

// The public names of Trireme in one namespace.
#include "trireme/base/error.h"
#include "trireme/checkpoint/plain_loop.h"
#include "trireme/comm/world.h"
#include "trireme/data/dataset.h"
#include "trireme/data/token_dataset.h"
#include "trireme/data_parallel/distributed_data_parallel.h"
#include "trireme/layers/job.h"
#include "trireme/model/models.h"
#include "trireme/program/run.h"
#include "trireme/spec/config.h"
#include "trireme/train/ddp_checkpoint.h"
#include "trireme/train/trainer.h"

namespace trireme {

using base::Error;

using comm::Group;
using comm::ReduceOp;
using comm::Work;
using comm::World;
using comm::WorldOptions;

using data::Batch;
using data::Dataset;

using layers::Job;
using layers::Layer;
using layers::Layers;
using layers::LossSum;
using layers::ParameterGroup;
using layers::Tensors;

using data_parallel::DistributedDataParallel;
using data_parallel::DistributedDataParallelOptions;

using checkpoint::load_checkpoint;
using checkpoint::save_checkpoint;
using train::load_checkpoint;
using train::save_checkpoint;

using spec::Config;
using spec::config_from_json;
using spec::ConfigSource;
using spec::load_config;
using spec::own_model;
using ModelReader = base::Reader;

using train::StepResult;
using train::Trainer;

using program::run;

}  // namespace trireme
