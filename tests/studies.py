"""Studies that several tests run."""

FOUR_CELLS = """
name: s
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4}]
seeds: [0, 1]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 2}
methods: [local, fedavg]
"""
