"""Makes tasks from walks over pages, and writes a reward from nothing but the text of one."""

from assay.environments.services.world import ServiceWorld
from assay.synthesis.sites.reward_writer import RewardWriter
from assay.synthesis.sites.walk_family import WalkTasks

tasks, figures = WalkTasks(app="bank", walks=100).make(3, seed=1)
print(f"{figures.walked} acts of {figures.walks} walks, {figures.played} of them played")

task = tasks[0]
request = str(task.instruction).partition("\n\n")[0]
fresh = ServiceWorld({"services": task.environment.parameters["services"]}, task.environment.seed)
print(request)
print(RewardWriter(fresh).write(request)[0])
