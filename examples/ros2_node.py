"""A learned controller as a ROS 2 node: observations in, actions out, ten times a second.

    python ros2_node.py --ros-args -p run:=runs/pusher-hypercrl-laptop-s0 -p task:="1"

Subscribes to `observation` and publishes `action`, both `std_msgs/Float32MultiArray`. While the
newest observation is older than two periods, or no imagined future is finite, the robot is told
to hold still. Needs rclpy, which comes with ROS 2 and not from PyPI.
"""

import numpy as np
import rclpy
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray

import hypercrl

PERIOD = 0.1  # seconds
STALE = 2 * PERIOD


class ControllerNode(Node):
    def __init__(self):
        super().__init__("hypercrl_controller")
        self.declare_parameter("run", "")
        self.declare_parameter("task", "1")
        run = self.get_parameter("run").value
        self.controller = hypercrl.load(run, budget=0.8 * PERIOD)
        self.task = self.controller.find(str(self.get_parameter("task").value))
        seconds = self.controller.warm_up(self.task)
        self.get_logger().info(f"ready; a plan takes {1000 * seconds:.0f} ms")
        self.observation, self.seen_at = None, None
        self.publisher = self.create_publisher(Float32MultiArray, "action", 1)
        self.create_subscription(Float32MultiArray, "observation", self.observe, 1)
        self.create_timer(PERIOD, self.control)

    def observe(self, message):
        self.observation, self.seen_at = np.asarray(message.data, np.float32), self.now()

    def control(self):
        action = np.zeros(self.controller.suite.spec.action_dim, np.float32)  # hold still
        if self.seen_at is None or self.now() - self.seen_at > STALE:
            self.controller.reset()
        else:
            planned = self.controller.act(self.observation, self.task)
            action = action if self.controller.info.get("fallback") else planned
            if self.controller.info["late"]:
                self.get_logger().warning("an action was late")
        self.publisher.publish(Float32MultiArray(data=action.tolist()))

    def now(self):
        return self.get_clock().now().nanoseconds * 1e-9


def main():
    rclpy.init()
    node = ControllerNode()
    try:
        rclpy.spin(node)
    finally:
        node.destroy_node()
        rclpy.shutdown()


if __name__ == "__main__":
    main()
