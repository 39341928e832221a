"""A learned controller without this package: its dynamics as ONNX, its planner as one function.

    controller -> onnx_model, planner_step -> folder (with `standalone.py` as its `run.py`)

What is written is checked against the controller before it is handed over.
"""
