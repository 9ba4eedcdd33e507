from torchtitan.trainer import Trainer


def llama3_8b() -> Trainer.Config:
    """One configuration."""
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=1, seq_len=8 * 1024, steps=1_000),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2,  # a comment
            data_parallel_shard_degree=-1,
        ),
        compile=CompileConfig(enable=True, components=["model", "loss"]),
    )
