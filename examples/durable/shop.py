"""The app on which every file of this folder declares its jobs."""

from redisjobs import App

app = App("durable")
