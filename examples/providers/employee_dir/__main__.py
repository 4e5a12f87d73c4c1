"""``python -m examples.providers.employee_dir`` serves the employee directory on loopback."""

from examples.providers.employee_dir.app import provider
from examples.providers.serve import serve

serve("employee_dir", provider, port=8801)
