"""What people do in the console. Each action is a form, checked as a request of the service is."""
